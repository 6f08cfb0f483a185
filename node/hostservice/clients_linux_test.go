package hostservice

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/hostservice/hosttest"
)

// A host serves itself, also from its address among the pods, and clients outside, and no pod.
func TestAPodAsksTheHost(t *testing.T) {
	nodePorts(t, testPort)
	host := dual()
	host.Addresses = addrs("172.31.0.17", "2001:db8::17")
	served, pods := addrs("10.244.1.2", "198.51.100.1", "fd00:1::2", "2001:db8:1::1"), addrs("10.244.1.9", "fd00:1::9")
	for _, addr := range slices.Concat(host.Addresses, served, pods) {
		hosttest.Address(t, netip.PrefixFrom(addr, addr.BitLen()).String())
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
					hosttest.Eventually(t, protocol+" "+at.String()+" answers "+client.String(), func() bool {
						return saidTo(client, protocol, at) == family
					})
				}
			}
			for _, pod := range pods {
				if pod.Is4() == asked.Is4() && saidTo(pod, protocol, at) == family {
					t.Errorf("%s %v answers a pod, %v", protocol, at, pod)
				}
			}
			hosttest.Eventually(t, "a refusal of "+protocol+" at "+at.String()+" is counted", func() bool {
				return refusedPods(t, w, protocol) > 0
			})
		}
	}
}

// refusedPods is how many connections or datagrams of pods were refused, by the metric.
func refusedPods(t *testing.T, w *watched, protocol string) (count float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if family.GetName() == "weft_host_proxy_failures_total" && labels["protocol"] == protocol &&
				labels["reason"] == "pod" {
				count += metric.GetCounter().GetValue()
			}
		}
	}
	return count
}
