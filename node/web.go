package node

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// endpoints serves /healthz (a restart would not help), /readyz (it can attach pods, or why not) and /metrics.
func (a *agent) endpoints() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.alive(); err != nil {
			respond(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		respond(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.health.Problems().All(); err != nil {
			respond(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		text := "ok"
		if notes := a.health.Noted().All(); notes != nil {
			text += ", but\n" + notes.Error()
		}
		respond(w, http.StatusOK, text)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}))
	return mux
}

func respond(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that left needs no answer
}

// alive says why only a restart can help the agent: what it waits for is no reason.
func (a *agent) alive() error {
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
