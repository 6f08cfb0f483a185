package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/models/httpserver"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/nodeconfig"
)

// web answers operators' tools at metrics-address from the agent's start on.
type web struct {
	handler atomic.Pointer[http.ServeMux]
	end     context.CancelFunc
	ended   chan struct{}
	err     error // why it has ended
}

// serveWeb says until there is an agent that Open vSwitch's database has not answered. Its daemons are asked meanwhile.
func serveWeb(ctx context.Context, c nodeconfig.Config) (*web, error) {
	ctx, end := context.WithCancel(ctx)
	w := &web{end: end, ended: make(chan struct{})}
	none := func() float64 { return 0 }
	w.answer(httpserver.Probes{
		Alive:   func() error { return nil },
		Metrics: newRegistry(c, func() bool { return false }, none, none), Profiles: c.Profiling,
		Ready: func() (detail string, err error) {
			return "", fmt.Errorf("ovs-database: %s has not answered yet: see whether ovsdb-server runs", c.OVSDatabase)
		},
	})
	serve, err := httpserver.Listen(ctx, c.MetricsAddress, w)
	if err != nil && !errors.Is(err, listeners.ErrNoAddress) {
		end()
		return nil, err
	}
	go func() {
		defer close(w.ended)
		if err != nil {
			slog.WarnContext(ctx, "metrics-address is served as soon as the host has it", "error", err)
			serve, err = listenLater(ctx, c.MetricsAddress, w)
		}
		if err == nil {
			err = serve()
		}
		w.err = err
	}()
	return w, nil
}

// listenLater returns when the host has the address. It may be the agent itself that gives it back to the host.
func listenLater(ctx context.Context, address string, handler http.Handler) (serve func() error, err error) {
	for ctx.Err() == nil {
		signal.Sleep(ctx, time.Second)
		if serve, err = httpserver.Listen(ctx, address, handler); !errors.Is(err, listeners.ErrNoAddress) {
			return serve, err
		}
	}
	return func() error { return nil }, nil
}

// answer has all requests from now on answered by these.
func (w *web) answer(p httpserver.Probes) { w.handler.Store(p.Handler()) }

func (w *web) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	w.handler.Load().ServeHTTP(response, request)
}

// wait returns why it serves no more, or when ctx is done.
func (w *web) wait(ctx context.Context) error {
	select {
	case <-w.ended:
		return w.err
	case <-ctx.Done():
		return nil
	}
}

func (w *web) close() {
	w.end()
	<-w.ended
}

// probes say whether a restart would help, and whether pods can be attached, or why not.
func (a *agent) probes() httpserver.Probes {
	return httpserver.Probes{
		Alive: a.liveness, Metrics: a.registry, Profiles: a.config.Profiling,
		Ready: func() (detail string, err error) {
			if err := a.health.Problems().All(); err != nil {
				return "", err
			}
			if notes := a.health.Noted().All(); notes != nil {
				return ", but\n" + notes.Error(), nil
			}
			return "", nil
		},
	}
}

// liveness says why only a restart can help the agent: what it waits for is no reason.
func (a *agent) liveness() error {
	if err := a.rounds.Overdue(); err != nil {
		return err
	}
	if !a.listening.Load() || runtime.GOOS == "windows" { // nobody removes a named pipe
		return nil
	}
	if _, err := os.Stat(a.config.CNISocket); os.IsNotExist(err) {
		return fmt.Errorf("cni-socket: %s is gone, and no pod can be attached; restart the agent, and see that nothing "+
			"cleans up its folder", a.config.CNISocket)
	}
	return nil
}
