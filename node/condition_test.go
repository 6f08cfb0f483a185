package node

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodetest"
)

// TestConditionOfAnAgent: what keeps pods from being attached comes before what else is amiss, and a limit of the
// node's is neither.
func TestConditionOfAnAgent(t *testing.T) {
	h := health.New(func(health.Condition, error) {}, func(*reasons.Event, string) {})
	h.Patience = 0
	says := func(when, status, reason, message string) {
		t.Helper()
		if c := conditionOf(h); string(c.Status) != status || c.Reason != reason || c.Message != message {
			t.Errorf("%s: %+v", when, c)
		}
	}
	for _, c := range []health.Condition{health.Database, health.Bridges, health.Network, health.Facts,
		health.Management} {
		h.Set(c, nil)
	}
	says("at the start", "False", "AgentNotReady", "ovn-controller: not looked at yet")
	h.Set(health.Controller, nil)
	says("all is well", "True", "AgentReady", "")
	h.Note(health.Connections, uplinkMTUTooLarge, errors.New("no limits of zones"))
	says("an old Open vSwitch", "True", "AgentReady", "")
	h.Note(health.HNS, hnsHangs, errors.New("HNS hangs"))
	says("a note", "True", "AgentWarns", "hns: HNS hangs")
	h.Set(health.Bridges, errors.New("no bridge"))
	says("a condition and a note", "False", "AgentNotReady", "bridges: no bridge; hns: HNS hangs")
	h.Patience = time.Hour
	h.Set(health.Bridges, nil)
	h.Set(health.Controller, errors.New("restarts"))
	says("a short interruption", "True", "AgentWarns", "hns: HNS hangs")
}

// TestTheConditionIsWrittenWhenItIsNews, and messages of a reason not too often.
func TestTheConditionIsWrittenWhenItIsNews(t *testing.T) {
	client := nodetest.FakeAPI(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	n, err := newOwnNode(client, "n1", func() {})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after   time.Duration
		reason  *reasons.Condition
		message string
		want    string
		since   time.Duration
	}{
		{0, agentNotReady, "no bridge", "False AgentNotReady no bridge", 0},
		{1 * time.Second, agentNotReady, "no bridge for 1s", "False AgentNotReady no bridge", 0},
		{messagePeriod, agentNotReady, "no bridge for 10s", "False AgentNotReady no bridge for 10s", 0},
		{messagePeriod + time.Second, agentReady, "", "True AgentReady ", messagePeriod + time.Second},
		{messagePeriod + 2*time.Second, agentWarns, "no route", "True AgentWarns no route", messagePeriod + time.Second},
	} {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.informer.GetStore().Add(node); err != nil {
			t.Fatal(err)
		}
		var told error
		if c.message != "" {
			told = errors.New(c.message)
		}
		if err := n.tell(t.Context(), condition(c.reason, told), begin.Add(c.after)); err != nil {
			t.Fatal(err)
		}
		if node, err = client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		got := conditionAmong(node.Status.Conditions)
		if text := string(got.Status) + " " + got.Reason + " " + got.Message; text != c.want ||
			!got.LastTransitionTime.Time.Equal(begin.Add(c.since)) {
			t.Errorf("%s after %s: %q since %s", c.message, c.after, text, got.LastTransitionTime)
		}
	}
}

// TestUplinkThatIsTooNarrow is told, with the key and both numbers.
func TestUplinkThatIsTooNarrow(t *testing.T) {
	address := nodetest.Addrs("192.0.2.11")[0]
	if err := tooLarge(1500, 1500, address); err != nil {
		t.Error(err)
	}
	const want = "uplink-mtu: 1500 is more than the 1400 bytes that the interface of 192.0.2.11 carries: large packets " +
		"to other nodes are lost; raise the MTU of the interface, or lower the key and replace the node's pods"
	if err := tooLarge(1500, 1400, address); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
