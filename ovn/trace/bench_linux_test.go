package trace

import (
	"net/netip"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntest/translated"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// BenchmarkTrace asks about a Service of a small cluster, both ways: two runs of ovn-trace. Beside it is a run alone.
func BenchmarkTrace(b *testing.B) {
	c := tracer(b, translated.Start(b, translated.Read(b, translated.Shop)))
	question := spec(b, "Pod shop/web > Service shop/db")
	b.Run("both ways", func(b *testing.B) {
		for b.Loop() {
			if status, err := c.Trace(b.Context(), question, everything); err != nil || status.Result != api.Arrives {
				b.Fatal(status, err)
			}
		}
	})
	packet := ovntrace.Packet{Inport: "shop_web", EthSrc: contract.MAC(netip.MustParseAddr("10.244.0.5")),
		EthDst: contract.MAC(netip.MustParseAddr("10.244.0.1")), Src: netip.MustParseAddr("10.244.0.5"),
		Dst: netip.MustParseAddr("10.244.1.5"), Protocol: ovntrace.TCP, SrcPort: clientPort, DstPort: 3307}
	b.Run("ovn-trace alone", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Program.Run(b.Context(), packet); err != nil {
				b.Fatal(err)
			}
		}
	})
}
