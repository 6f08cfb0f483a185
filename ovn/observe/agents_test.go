package observe

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/hits"
)

// TestWhyAnAgentIsNotReached: of an agent that does not know what is asked for, users are told the remedy. Of others
// the log has the reason, since it tells of addresses.
func TestWhyAnAgentIsNotReached(t *testing.T) {
	for err, want := range map[error]string{
		hits.ErrNoTarget:                     "node n1: " + hits.ErrNoTarget.Error(),
		errors.New("192.0.2.60:16642: away"): "the agent of node n1 is not reached; the log of weft observe says why",
	} {
		for _, address := range []string{"192.0.2.60:16642", ""} {
			agents := agentDialer{
				dial: func(context.Context, hits.Node) (net.Conn, error) { return nil, err },
				node: func(name string) (hits.Node, bool) { return hits.Node{Name: name, Address: address}, true },
			}
			if address == "" {
				want = "the agent of node n1 cannot be asked: " + hits.ErrNoAddress.Error()
			}
			if _, got := agents.open(t.Context(), "n1"); got == nil || got.Error() != want {
				t.Errorf("%v at %q: %v", err, address, got)
			}
		}
	}
}

// TestWhichAgentsAreAsked: a node has no door connect to others, and it is said once.
func TestWhichAgentsAreAsked(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	for said, refused := range map[string]bool{"192.0.2.1:16642": false, "198.51.100.1:16642": false, "": false,
		"192.0.2.2:16642": true, "127.0.0.1:16642": true, "192.0.2.1:6443": true, "metadata:16642": true} {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
			Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(contract.NodeFacts{
				Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.1")}, Counters: said})}}}
		object.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
		kept, err := keepNode(object)
		if err != nil {
			t.Fatal(err)
		}
		log.Reset()
		d := &door{}
		for range 2 {
			nodes := d.nodesOf([]any{kept})
			if len(nodes) != 1 || (nodes[0].Address == "") != (refused || said == "") {
				t.Errorf("%q: %+v", said, nodes)
			}
		}
		if lines := strings.Count(log.String(), "an agent is not asked"); (lines == 1) != refused || lines > 1 {
			t.Errorf("%q: %d lines: %s", said, lines, log.String())
		}
	}
}
