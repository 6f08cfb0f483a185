package explain

import "testing"

func TestLocalAddresses(t *testing.T) {
	const (
		multicast = "before all     Deny: pods have no broadcast and no multicast where there are policies\n"
		linkLocal = "before all     Deny: pods have no link-local addresses where there are policies\n"
		host      = "before all     Accept: a node sends to the pods on it, whatever policies say\n"
	)
	answers(t, twoNodes, []question{
		{"web", "224.0.0.251:5353/udp", multicast},
		{"web", "255.255.255.255:68/udp", multicast},
		{"agent2", "224.0.0.251:5353/udp", host},
		{"192.0.2.12", "255.255.255.255:68/udp", host},
	})
	answers(t, `{apiVersion: v1, kind: Pod, metadata: {name: six}, spec: {nodeName: n1, containers: []}, status: {podIPs: [{ip: "fd00::8"}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: none}, spec: {podSelector: {}, ingress: [{}]}}`, []question{
		{"six", "[ff02::fb]:5353/udp", multicast},
		{"six", "[fe80::1]:80", linkLocal},
		{"six", "[fd00::9]:80", "allowed by default"},
	})
}
