package observe

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/observe/dump"
)

// dumpTime bounds a dump. The API server itself gives an answer a minute.
const dumpTime = 50 * time.Second

// dumpType is the media type of lines of JSON.
const dumpType = "application/jsonl"

// dumps write what a sysdump needs, by name. What they hold is little, but they read a lot: there is one at a time.
type dumps struct {
	sources map[string]func(context.Context, *dump.Writer) error
	busy    chan struct{} // has room for one
}

func newDumps(sources map[string]func(context.Context, *dump.Writer) error) *dumps {
	return &dumps{sources: sources, busy: make(chan struct{}, 1)}
}

// begin takes the place of the one dump until release is called.
func (d *dumps) begin() (release func(), err error) {
	select {
	case d.busy <- struct{}{}:
		return func() { <-d.busy }, nil
	default:
		return nil, apierrors.NewTooManyRequests("another dump is under way; try again", 5)
	}
}

// stream is an answer that is written piece by piece.
type stream struct {
	kind    string // its media type
	warning string // is shown to the user before the answer, if there is one
	lasts   time.Duration
	// write's error breaks the answer off, so that the client does not take it for whole.
	write func(context.Context, http.ResponseWriter) error
}

// send gives a stream more time than other answers have.
func (s stream) send(w http.ResponseWriter, r *http.Request) {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.lasts + closeTime)); err != nil {
		slog.WarnContext(r.Context(), "a stream has no more time than other answers", "error", err)
	}
	w.Header().Set("Content-Type", s.kind)
	w.Header().Set("Cache-Control", "no-store")
	if s.warning != "" {
		warning(w, s.warning)
	}
	if err := s.write(r.Context(), w); err != nil {
		panic(http.ErrAbortHandler) // it has been logged
	}
}

// networkDump has everything that databases say, without secrets. So it is for those who have its right in the whole
// cluster.
func (h *handler) networkDump(r *http.Request, who user.Info, name string) (any, error) {
	if err := h.demandGet(r.Context(), who, api.NetworkDumpResource, name, api.NetworkDumpRole); err != nil {
		return nil, err
	}
	source, known := h.dumps.sources[name]
	if !known {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: api.NetworkDumpResource}, name)
	}
	release, err := h.dumps.begin()
	if err != nil {
		return nil, err
	}
	return stream{kind: dumpType, lasts: dumpTime, write: func(ctx context.Context, w http.ResponseWriter) error {
		defer release()
		ctx, cancel := context.WithTimeout(ctx, dumpTime)
		defer cancel()
		lines := dump.NewWriter(w, dump.MaxSize)
		err := source(ctx, lines)
		if err != nil {
			slog.ErrorContext(ctx, "a dump is not complete", "dump", name, "error", err)
		}
		lines.End(err)
		return nil
	}}, nil
}

// namePath gives the name in a path of one object of a resource of the cluster.
func namePath(path, resource string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, "/apis/"+api.GroupVersion+"/"+resource+"/")
	return name, ok && name != "" && !strings.Contains(name, "/")
}
