package trace

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntest/translated"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// BenchmarkLargeTrace asks about two pods of a cluster of 20 nodes and 2,000 pods, both ways. Beside the time it tells
// the processor's time that the runs of ovn-trace took, and the most memory that one had.
func BenchmarkLargeTrace(b *testing.B) {
	c := tracer(b, translated.Start(b, translated.Read(b, translated.Large(20, 2000))))
	question := spec(b, "Pod shop/p0 > Pod shop/p1 80")
	before := ofChildren(b)
	b.ReportAllocs()
	for b.Loop() {
		if status, err := c.Trace(b.Context(), question, everything); err != nil || status.Result != api.Arrives {
			b.Fatal(status, err)
		}
	}
	after := ofChildren(b)
	seconds := func(u unix.Rusage) float64 { return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9 }
	b.ReportMetric((seconds(after)-seconds(before))/float64(b.N), "processor-s/op")
	b.ReportMetric(float64(after.Maxrss)/1024, "MB/ovn-trace")
}

// ofChildren is what the programs that have ended have used.
func ofChildren(b *testing.B) (used unix.Rusage) {
	b.Helper()
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &used); err != nil {
		b.Fatal(err)
	}
	return used
}

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
			if _, err := c.Program.Run(b.Context(), packet, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
