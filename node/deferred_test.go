package node

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// follow runs the agent's parts for late devices; stop is a kill.
func (n *bareNode) follow() (stop func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan struct{}, 2)
	go func() { _ = n.attacher.ReconcilePending(ctx); ended <- struct{}{} }()
	go func() { _ = n.watchPlatform(ctx); ended <- struct{}{} }()
	stopEvents := n.events.start(n.client)
	n.t.Cleanup(stopEvents)
	return func() { cancel(); <-ended; <-ended }
}

// awaitEvent waits for an Event on the pod "web".
func (n *bareNode) awaitEvent(reason string) {
	n.t.Helper()
	nodetest.Eventually(n.t, 10*time.Second, func() error {
		list, err := n.client.CoreV1().Events("shop").List(n.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == "web" &&
				e.InvolvedObject.UID == "u1" {
				return nil
			}
		}
		return errors.New("no Event " + reason)
	})
}

// What the attacher reports of a device that comes late becomes Events, and is counted.
func TestPodsAreToldByEvents(t *testing.T) {
	n := newBareNodeWith(t, func(c *nodeconfig.Config, f *platformtest.Fake) {
		f.Deferred, c.VNICTimeout = true, 50*time.Millisecond
	})
	n.InstallFlows()
	n.follow()
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	n.awaitEvent("NetworkNotAttached")
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
	n.awaitEvent("NetworkAttached")
	recorder := httptest.NewRecorder()
	n.probes().Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"weft_arrival_seconds_count 1", "weft_late_arrivals_total 1",
		"weft_vanished_devices_total 0", "weft_pending_arrivals 0"} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, recorder.Body)
		}
	}
}
