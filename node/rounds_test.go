package node

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodetest"
)

// healthz is the agent's answer.
func (a *agent) healthz() (int, string) {
	recorder := httptest.NewRecorder()
	a.probes().Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	return recorder.Code, recorder.Body.String()
}

// TestStuckLoopIsNotHealthy, a loop that waits is, and one that goes round all the time is, too.
func TestStuckLoopIsNotHealthy(t *testing.T) {
	a := newBareNode(t).agent
	synctest.Test(t, func(t *testing.T) {
		a.rounds = health.NewRounds()
		for range 100 {
			a.rounds.Do("sweep", func() { time.Sleep(health.Stuck / 50) })
		}
		if err := a.rounds.Overdue(); err != nil {
			t.Errorf("rounds that end: %v", err)
		}
		hung, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			a.rounds.Do("node", func() { <-hung })
		}()
		time.Sleep(health.Stuck / 2)
		if status, body := a.healthz(); status != http.StatusOK {
			t.Errorf("a round of %s: %d %s", health.Stuck/2, status, body)
		}
		time.Sleep(health.Stuck)
		if status, body := a.healthz(); status != http.StatusServiceUnavailable ||
			!strings.Contains(body, "node: the same round") {
			t.Errorf("a hung round: %d %s", status, body)
		}
		close(hung)
		<-ended
		if status, body := a.healthz(); status != http.StatusOK {
			t.Errorf("it goes on: %d %s", status, body)
		}
	})
}

// TestLostSocketIsNotHealthy: nobody can ask the agent for anything.
func TestLostSocketIsNotHealthy(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("named pipes are not removed")
	}
	a := newBareNode(t).agent
	a.config.CNISocket = filepath.Join(nodetest.Folder(t), "cni.sock")
	if status, body := a.healthz(); status != http.StatusOK {
		t.Errorf("before it listens: %d %s", status, body)
	}
	if err := os.WriteFile(a.config.CNISocket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.listening.Store(true)
	if status, body := a.healthz(); status != http.StatusOK {
		t.Errorf("while it listens: %d %s", status, body)
	}
	if err := os.Remove(a.config.CNISocket); err != nil {
		t.Fatal(err)
	}
	if status, body := a.healthz(); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, a.config.CNISocket) {
		t.Errorf("the socket is gone: %d %s", status, body)
	}
}
