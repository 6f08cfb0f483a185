package hostservice

import (
	"net/netip"
	"slices"
	"testing"
)

// A host serves itself, also from its address among the pods, and clients outside, and no pod.
func TestAPodAsksTheHost(t *testing.T) {
	nodePorts(t, testPort)
	host := dual()
	host.Addresses = addrs("172.31.0.17", "2001:db8::17")
	served, pods := addrs("10.244.1.2", "198.51.100.1", "fd00:1::2", "2001:db8:1::1"), addrs("10.244.1.9", "fd00:1::9")
	for _, addr := range slices.Concat(host.Addresses, served, pods) {
		address(t, netip.PrefixFrom(addr, addr.BitLen()).String())
	}
	w := watch(t, host)
	w.apply(everyFamily("10.96.0.20", "fd96::20"))
	for _, asked := range host.Addresses {
		at, family := netip.AddrPortFrom(asked, testPort), "6"
		if asked.Is4() {
			family = "4"
		}
		for _, protocol := range []string{tcp, udp} {
			for _, client := range append(served, asked) {
				if client.Is4() == asked.Is4() {
					eventually(t, protocol+" "+at.String()+" answers "+client.String(), func() bool {
						return saidTo(client, protocol, at) == family
					})
				}
			}
			for _, pod := range pods {
				if pod.Is4() == asked.Is4() && saidTo(pod, protocol, at) == family {
					t.Errorf("%s %v answers a pod, %v", protocol, at, pod)
				}
			}
			eventually(t, "a refusal of "+protocol+" at "+at.String()+" is counted", func() bool {
				return measured(t, w.metrics.failures.WithLabelValues(protocol, failedPod)) > 0
			})
		}
	}
}
