package hostservice

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkPlan is the cost of a change among 5,000 Services with NodePorts.
func BenchmarkPlan(b *testing.B) {
	s := state{host: dual(), nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{}}
	for i := range 5000 {
		port := corev1.ServicePort{Name: "http", Port: 80, NodePort: int32(20000 + i)}
		s.services = append(s.services, trimmed(b, nodePortOf(fmt.Sprint("web-", i), int64(i), "46", port)))
	}
	for b.Loop() {
		if p := makePlan(s); len(p.sockets) != 4*5000 {
			b.Fatalf("%d sockets", len(p.sockets))
		}
	}
}
