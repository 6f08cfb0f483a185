package ovn

import (
	"net/http"
	"net/http/pprof"

	"github.com/weftnet/weft/models/httpserver"
)

// endpoints are what an operator's tools ask the controller.
func (c *controller) endpoints() http.Handler {
	mux := httpserver.Probes{
		Metrics: c.metrics.registry, Alive: c.alive,
		Ready: func() (detail string, err error) { return "", c.ready() },
	}.Handler()
	if c.config.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
