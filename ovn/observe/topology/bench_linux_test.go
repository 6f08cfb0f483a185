package topology

import (
	"testing"

	"github.com/weftnet/weft/ovn/ovntest/translated"
	"github.com/weftnet/weft/ovsdb"
)

// BenchmarkRead reads a cluster of 20 nodes and 2,000 pods off real servers of the databases.
func BenchmarkRead(b *testing.B) {
	c := translated.Start(b, translated.Read(b, translated.Large(20, 2000)))
	sources := &Sources{Northbound: ovsdb.Config{Endpoints: c.Northbound},
		Southbound: ovsdb.Config{Endpoints: c.Southbound}, Nodes: c.Nodes}
	b.ReportAllocs()
	for b.Loop() {
		list, err := sources.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		pods := 0
		for _, node := range list.Items[0].Nodes {
			pods += len(node.Pods)
		}
		if pods != 2000 {
			b.Fatalf("%d pods", pods)
		}
	}
}
