package node

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// condition is something that must hold before a pod can be attached.
type condition string

const (
	conditionDatabase   condition = "ovs-database"   // connected
	conditionBridges    condition = "bridges"        // Open vSwitch is set up
	conditionNetwork    condition = "node-network"   // the controller has given the node its subnet
	conditionFacts      condition = "node-facts"     // the controller can know the node's
	conditionManagement condition = "management"     // the host reaches its pods
	conditionController condition = "ovn-controller" // runs and is connected
)

// problems maps conditions that do not hold to the reason.
type problems map[condition]error

func (p problems) all() error {
	var errs []error
	for _, c := range slices.Sorted(maps.Keys(p)) {
		errs = append(errs, fmt.Errorf("%s: %w", c, p[c]))
	}
	return errors.Join(errs...)
}

// blocking are those that an ADD cannot outwait: it comes with its own deadline, so a database or
// an ovn-controller that is just being restarted does not refuse it.
func (p problems) blocking() error {
	for _, c := range []condition{conditionBridges, conditionNetwork} {
		if p[c] != nil {
			return fmt.Errorf("%s: %w", c, p[c])
		}
	}
	return nil
}

// health is what the agent knows about its node's conditions.
type health struct {
	mu      sync.Mutex
	now     problems
	changed func(condition, error)
}

func newHealth(changed func(condition, error)) *health {
	h := &health{now: problems{}, changed: changed}
	for _, c := range []condition{conditionDatabase, conditionBridges, conditionNetwork, conditionFacts, conditionManagement, conditionController} {
		h.now[c] = errors.New("not looked at yet")
	}
	return h
}

// set records whether a condition holds, and tells each change once.
func (h *health) set(c condition, err error) {
	h.mu.Lock()
	before := h.now[c]
	if err == nil {
		delete(h.now, c)
	} else {
		h.now[c] = err
	}
	h.mu.Unlock()
	if (before == nil) != (err == nil) || err != nil && before.Error() != err.Error() {
		h.changed(c, err)
	}
}

func (h *health) problems() problems {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.now)
}

// endpoints serves /healthz (the agent runs), /readyz (it can attach pods, or why not) and /metrics.
func (a *agent) endpoints() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.health.problems().all(); err != nil {
			respond(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		respond(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

func respond(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that left needs no answer
}
