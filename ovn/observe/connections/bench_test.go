package connections

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
)

// BenchmarkRead reads the connections of 20 nodes, each of which remembers 1,000 that its pods have by a Service, in
// the zones of both ends.
func BenchmarkRead(b *testing.B) {
	const nodes, connections = 20, 1000
	answers := map[string]string{}
	var names []string
	for node := range nodes {
		name := fmt.Sprint("n", node)
		names = append(names, name)
		answers[name] = remembered(b, node, connections)
	}
	s := sources(answers, names...)
	b.ReportAllocs()
	for b.Loop() {
		if f := s.Read(b.Context()).Items[0]; len(f.Flows) != nodes*connections || f.NodesUnanswered > 0 {
			b.Fatalf("%d flows, %d nodes have not answered", len(f.Flows), f.NodesUnanswered)
		}
	}
}

// remembered is what the agent of a node tells of so many connections.
func remembered(b *testing.B, node, connections int) string {
	b.Helper()
	var text strings.Builder
	tell := json.NewEncoder(&text)
	for i := range connections {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(node), byte(3 + i%100)}), uint16(20000+i))
		server := netip.MustParseAddrPort("10.244.1.4:8080")
		for _, asked := range []netip.AddrPort{netip.MustParseAddrPort("10.96.0.10:80"), server} {
			c := contract.Connection{Protocol: "tcp", State: "ESTABLISHED",
				Original: contract.Direction{Source: client, Destination: asked},
				Reply:    contract.Direction{Source: server, Destination: client}}
			if err := tell.Encode(contract.ConnectionRecord{Connection: &c}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := tell.Encode(contract.ConnectionRecord{End: &contract.ConnectionsEnd{}}); err != nil {
		b.Fatal(err)
	}
	return text.String()
}
