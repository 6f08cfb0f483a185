package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/observe/command"
)

// maxCommands is how many programs run at a time: each holds tables of a database in memory.
const maxCommands = 2

// commands run OVN's programs against the read-only sockets, by the names of the programs.
type commands struct {
	databases map[string]string
	running   chan struct{} // has room for maxCommands
}

func newCommands(databases map[string]string) *commands {
	return &commands{databases: databases, running: make(chan struct{}, maxCommands)}
}

// run waits for its turn.
func (c *commands) run(ctx context.Context, tool *command.Tool, arguments []string) (*api.OVNCommand, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
		return tool.Run(ctx, c.databases[tool.Name], arguments)
	case <-ctx.Done():
		return nil, apierrors.NewTooManyRequests("too many commands are under way; try again", 5)
	}
}

// ovnCommand shows whatever is in a database. So it is for those who have its right in the whole cluster.
func (h *handler) ovnCommand(r *http.Request, who user.Info, name string) (any, error) {
	if err := h.demandGet(r.Context(), who, api.OVNCommandResource, name, api.OVNCommandRole); err != nil {
		return nil, err
	}
	tool, known := command.Tools[name]
	if !known {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: api.OVNCommandResource}, name)
	}
	arguments := r.URL.Query()[api.OVNCommandArgument]
	if err := tool.Check(arguments); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	slog.InfoContext(r.Context(), "a command is run", "user", who.GetName(), "program", tool.Program, "arguments",
		arguments)
	answer, err := h.commands.run(r.Context(), tool, arguments)
	if _, told := err.(apierrors.APIStatus); err == nil || told {
		return answer, err
	}
	slog.ErrorContext(r.Context(), "a command cannot be run", "program", tool.Program, "error", err)
	return nil, apierrors.NewInternalError(fmt.Errorf("%s cannot be run: install OVN's client programs on the host of "+
		"the door %s; its log says more", tool.Program, h.identity))
}
