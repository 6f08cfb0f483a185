package connections

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/hits"
)

// record is a line of an agent: a connection from a port of a pod to a Service.
func record(port uint16) contract.ConnectionRecord {
	client := netip.AddrPortFrom(netip.MustParseAddr("10.244.1.3"), port)
	return contract.ConnectionRecord{Connection: &contract.Connection{Protocol: "tcp", State: "ESTABLISHED",
		Original: contract.Direction{Source: client, Destination: netip.MustParseAddrPort("10.96.0.10:80")},
		Reply:    contract.Direction{Source: netip.MustParseAddrPort("10.244.1.4:8080"), Destination: client}}}
}

// agents answer each node with its text, until it is over or nobody reads. A node without a text has no target.
func agents(answers map[string]string) hits.Dial {
	return func(_ context.Context, node hits.Node) (net.Conn, error) {
		text, known := answers[node.Name]
		if !known {
			return nil, hits.ErrNoTarget
		}
		theirs, ours := net.Pipe()
		go func() {
			defer ours.Close()
			_, _ = io.WriteString(ours, text) // who asked may have had enough
		}()
		return theirs, nil
	}
}

func lines(t *testing.T, records ...contract.ConnectionRecord) string {
	t.Helper()
	var text strings.Builder
	for _, r := range records {
		if err := json.NewEncoder(&text).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// sources are a cluster whose agents answer so.
func sources(answers map[string]string, nodes ...string) *Sources {
	s := &Sources{Dial: agents(answers), Nodes: func() []*corev1.Node { return nil },
		Topology: func(context.Context) (*api.NetworkTopologyList, error) {
			pod := func(name, address string) api.PortTopology {
				return api.PortTopology{Namespace: "shop", Name: name, Addresses: []string{address}}
			}
			return &api.NetworkTopologyList{Items: []api.NetworkTopology{{Nodes: []api.NodeTopology{{Name: "n1",
				Pods: []api.PortTopology{pod("web", "10.244.1.3"), pod("db", "10.244.1.4")}}}}}}, nil
		},
		Kubernetes: fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
			Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"},
				Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}}})}
	s.Agents = func() (list []hits.Node) {
		for _, name := range nodes {
			list = append(list, hits.Node{Name: name, Address: "192.0.2.1:16642"})
		}
		return list
	}
	return s
}

// TestRead: nodes that do not answer rightly are told, each with its reason, and the others' flows have names.
func TestRead(t *testing.T) {
	end := contract.ConnectionRecord{End: &contract.ConnectionsEnd{Omitted: 3}}
	noAddress := record(4)
	noAddress.Connection.Reply.Source = netip.AddrPort{}
	s := sources(map[string]string{
		"good": lines(t, record(4000), record(4001), end), "same": lines(t, record(4000), end),
		"sorry":   lines(t, contract.ConnectionRecord{End: &contract.ConnectionsEnd{Error: "no \x1b[2Jsocket"}}),
		"short":   lines(t, record(1)),
		"silent":  "",
		"nothing": lines(t, contract.ConnectionRecord{}), "half": lines(t, noAddress, end),
		"nonsense": `{"connection": 7}`,
	}, "good", "same", "sorry", "short", "silent", "nothing", "half", "nonsense", "old")
	got := s.Read(t.Context()).Items[0]
	if len(got.Flows) != 2 || got.Omitted != 6 || got.NodesAsked != 9 || got.NodesUnanswered != 7 || len(got.Unread) != 0 {
		t.Errorf("%d flows, %d omitted, %d of %d unanswered, %v", len(got.Flows), got.Omitted, got.NodesUnanswered,
			got.NodesAsked, got.Unread)
	}
	if f := got.Flows[0]; f.Source.Name != "web" || f.Destination.Name != "db" || f.Service == nil ||
		f.Service.Name != "db" || strings.Join(f.Nodes, " ") != "good same" {
		t.Errorf("the first flow is %+v", f)
	}
	want := map[string]string{"sorry": `its agent says: "no \x1b[2Jsocket"`, "short": "EOF", "silent": "EOF",
		"nothing": "neither a connection nor an end", "half": "neither a connection nor an end",
		"nonsense": "cannot unmarshal", "old": "of an earlier version, which cannot do this: upgrade the agent"}
	for _, u := range got.Unanswered {
		if text := want[u.Node]; text == "" || !strings.Contains(u.Reason, text) {
			t.Errorf("node %s: %s, want %q", u.Node, u.Reason, text)
		}
	}
}

// TestNodesHaveTheirShare: what goes beyond it is counted, and an agent cannot go on for ever.
func TestNodesHaveTheirShare(t *testing.T) {
	end := contract.ConnectionRecord{End: &contract.ConnectionsEnd{}}
	dial := agents(map[string]string{"n": lines(t, record(1), record(2), record(3), end),
		"endless": lines(t, record(1)) + strings.Repeat(" ", maxRecord*(contract.MaxConnections+1))})
	entries, omitted, err := ask(t.Context(), dial, hits.Node{Name: "n", Address: "a"}, 2)
	if len(entries) != 2 || omitted != 1 || err != nil {
		t.Errorf("%d entries, %d omitted, %v", len(entries), omitted, err)
	}
	entries, _, err = ask(t.Context(), dial, hits.Node{Name: "endless", Address: "a"}, 2)
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) || len(entries) != 0 {
		t.Errorf("an endless answer gives %d entries, %v", len(entries), err)
	}
	if _, _, err := ask(t.Context(), dial, hits.Node{Name: "n"}, 2); !errors.Is(err, hits.ErrNoAddress) {
		t.Errorf("a node without an address: %v", err)
	}
}

// TestWithoutNames: flows are told by their addresses, and what could not be read is told.
func TestWithoutNames(t *testing.T) {
	end := contract.ConnectionRecord{End: &contract.ConnectionsEnd{}}
	s := sources(map[string]string{"n1": lines(t, record(4000), end)}, "n1")
	s.Topology = func(context.Context) (*api.NetworkTopologyList, error) { return nil, errors.New("away") }
	got := s.Read(t.Context()).Items[0]
	if len(got.Flows) != 1 || got.Flows[0].Source.Name != "" || got.Flows[0].Source.Address != "10.244.1.3" {
		t.Errorf("the flows are %+v", got.Flows)
	}
	if len(got.Unread) != 1 || got.Unread[0] != (api.Unread{Source: "OVN_Northbound", Reason: "away"}) {
		t.Errorf("not read: %v", got.Unread)
	}
}
