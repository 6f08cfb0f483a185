package cni

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/weftnet/weft/models/httpserver"
)

// Handler is what the agent does for each verb. Errors that are a *[types.Error] keep their code,
// others are internal errors. A cancelled context means that nobody waits for the answer any more.
type Handler interface {
	Add(ctx context.Context, call *Call) (*types100.Result, error)
	Del(ctx context.Context, call *Call) error
	Check(ctx context.Context, call *Call) error
	Status(ctx context.Context) error
	// GC is asked of one network: those attachments of it that are not in valid are stale.
	GC(ctx context.Context, network string, valid map[Attachment]bool) error
}

// limits are for a socket that root alone opens. How long a call takes is the runtime's to say.
var limits = httpserver.Limits{Header: 10 * time.Second, Request: 30 * time.Second, Idle: time.Minute}

const (
	pathPrefix = "/v1/"
	maxRequest = 1 << 20
)

// Serve answers plugins on listener until ctx ends, and returns when the calls under way have
// ended too. observe sees each call's verb, code (0 is success) and duration.
func Serve(ctx context.Context, listener net.Listener, handler Handler, observe func(Verb, uint, time.Duration)) error {
	server := httpserver.New(&router{handler: handler, observe: observe}, limits)
	server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := server.Shutdown(grace)
		if err != nil { // calls that are still waiting get their context cancelled
			err = server.Close()
		}
		stopped <- err
	})
	err := server.Serve(listener)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

type router struct {
	handler Handler
	observe func(Verb, uint, time.Duration)
}

func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	start := time.Now()
	verb := Verb(strings.TrimPrefix(request.URL.Path, pathPrefix))
	result, err := r.serve(verb, request)
	if err == nil {
		r.observe(verb, 0, time.Since(start))
		answer(w, http.StatusOK, result)
		return
	}
	failure := AsError(err)
	r.observe(verb, failure.Code, time.Since(start))
	if !errors.Is(request.Context().Err(), context.Canceled) && verb != Status {
		slog.ErrorContext(request.Context(), "cni call failed", "verb", verb, "code", failure.Code, "error", failure)
	}
	answer(w, httpStatus(failure.Code), failure)
}

func (r *router) serve(verb Verb, request *http.Request) (any, error) {
	if !strings.HasPrefix(request.URL.Path, pathPrefix) || request.Method != http.MethodPost {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "the agent does not know "+request.Method+" "+
			request.URL.Path,
			"weft-cni and weft are of different releases; install both of one")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, request.Body, maxRequest))
	if err != nil {
		return nil, types.NewError(types.ErrIOFailure, "read the plugin's request: "+err.Error(), "")
	}
	call, err := ParseRequest(verb, body)
	if err != nil {
		return nil, err
	}
	ctx := request.Context()
	switch verb {
	case Add:
		return r.handler.Add(ctx, call)
	case Del:
		return nil, r.handler.Del(ctx, call)
	case Check:
		return nil, r.handler.Check(ctx, call)
	case Status:
		return nil, r.handler.Status(ctx)
	case GC:
		return nil, r.handler.GC(ctx, call.Config.Network, call.Config.Valid)
	}
	return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_COMMAND: the agent does not know "+string(verb),
		"")
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		slog.Error("answer the cni plugin", "error", err)
	}
}

func httpStatus(code uint) int {
	switch code {
	case types.ErrTryAgainLater, ErrNotAvailable, ErrLimitedConnectivity:
		return http.StatusServiceUnavailable
	case types.ErrInternal, types.ErrUnknown, types.ErrIOFailure:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}
