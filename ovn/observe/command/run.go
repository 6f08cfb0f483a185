package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/bounded"
)

// Bounds of what one command does.
const (
	// MaxTime is how long it may take.
	MaxTime   = 15 * time.Second
	maxOutput = 4 << 20 // bytes
	maxErrors = 64 << 10
)

// Run runs arguments that [Tool.Check] has let pass against a database. An error means that the program could not be
// run; what the program says is in the answer, whatever its exit code.
func (t *Tool) Run(ctx context.Context, database string, arguments []string) (*api.OVNCommand, error) {
	limit := MaxTime
	if at, ok := ctx.Deadline(); ok { // whoever has waited for others has less
		limit = min(limit, time.Until(at))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, errs := &bounded.Buffer{Most: maxOutput}, &bounded.Buffer{Most: maxErrors}
	cmd := exec.CommandContext(ctx, t.Program, append([]string{"--db=" + database, "--no-leader-only", "--no-syslog",
		"--dry-run"}, arguments...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // without OVN_NB_DAEMON and the like
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	err := cmd.Run()
	said := errs.String()
	if errs.Over() {
		said += fmt.Sprintf("\n… and more than the %d bytes that are kept of what it says of errors\n", maxErrors)
	}
	var exited *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w; install OVN's client programs (Debian's ovn-common) on the host of weft observe", err)
	case ctx.Err() != nil && limit < MaxTime:
		said += fmt.Sprintf("%s had to wait for other commands, and was ended after %v; ask again\n", t.Program,
			limit.Round(time.Second))
	case ctx.Err() != nil:
		said += fmt.Sprintf("%s was ended after %v; ask for less\n", t.Program, MaxTime)
	case err != nil && !errors.As(err, &exited):
		return nil, fmt.Errorf("run %s: %w", t.Program, err)
	}
	return &api.OVNCommand{
		TypeMeta:   metav1.TypeMeta{Kind: api.OVNCommandKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Name: t.Name}, Arguments: arguments, ExitCode: cmd.ProcessState.ExitCode(),
		Output: out.String(), Errors: said, Truncated: out.Over(),
	}, nil
}
