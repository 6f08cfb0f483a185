//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// visitors are the sources of packets for a port that come to a pod, whether somebody listens there or not.
type visitors struct {
	at    place
	table string
}

// count begins to take down visitors.
func (p place) count(t testing.TB, port int) visitors {
	t.Helper()
	v := visitors{p, fmt.Sprintf("visitors_%d", port)}
	p.must(t, "nft", fmt.Sprintf(`table inet %[1]s {
		set sources4 { type ipv4_addr; flags dynamic; size 1024; }
		set sources6 { type ipv6_addr; flags dynamic; size 1024; }
		chain input {
			type filter hook input priority 0;
			meta l4proto { tcp, udp } th dport %[2]d add @sources4 { ip saddr }
			meta l4proto { tcp, udp } th dport %[2]d add @sources6 { ip6 saddr }
		}
	}`, v.table, port))
	t.Cleanup(func() { p.must(t, "nft", "delete", "table", "inet", v.table) })
	return v
}

// among says which of the addresses have come so far.
func (v visitors) among(t testing.TB, addrs []netip.Addr) []netip.Addr {
	t.Helper()
	words := strings.FieldsFunc(v.at.must(t, "nft", "list", "table", "inet", v.table), func(r rune) bool {
		return strings.ContainsRune(" \t\n,{}", r)
	})
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !slices.Contains(words, a.String()) })
}

// all waits until all addresses have come.
func (v visitors) all(t testing.TB, addrs []netip.Addr) {
	t.Helper()
	eventually(t, inForce, "all come", func() error {
		if came := v.among(t, addrs); len(came) < len(addrs) {
			return fmt.Errorf("of %v there are %v", addrs, came)
		}
		return nil
	})
}

// none fails if one of the addresses has come.
func (v visitors) none(t testing.TB, addrs []netip.Addr) {
	t.Helper()
	if came := v.among(t, addrs); len(came) > 0 {
		t.Errorf("%v have come to %s", came, v.at)
	}
}

// A restless pod sends to all URLs from its first instant on, many times a second.
const restlessTemplate = `
---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {name: %[2]s}}
spec:
  nodeName: %[3]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: restless
    image: %[4]s
    command: [/bin/ask, -n, "1000000", -every, 20ms, -timeout, 20ms, "%[5]s"]
    volumeMounts: [{name: ask, mountPath: /bin/ask}]
  volumes: [{name: ask, hostPath: {path: %[6]s, type: File}}]
`

// sendsNothing is about new pods in a namespace whose policy lets only one of them, which is named free, send.
// Between the policies' and the pods' creation something may happen.
func sendsNothing(t *testing.T, namespace string, port int, meanwhile func()) {
	t.Helper()
	listener := inWeb(t, "l2").count(t, port)
	var urls []string
	for _, a := range podAddresses(t, web("l2")) {
		urls = append(urls, udpURL(a, port, "x"), httpURL(a, port, "x"))
	}
	n := tenancy{namespace, map[string][]netip.Addr{}, map[string]place{}}
	manifest := newNamespace(namespace, "") + n.policy("deny", "podSelector: {}, policyTypes: [Ingress, Egress]") +
		n.policy("free", "podSelector: {matchLabels: {name: free}}, policyTypes: [Egress], egress: [{}]")
	if meanwhile != nil {
		cluster.Apply(t, manifest)
		n.says(t, "deny", "InForce")
		meanwhile()
		manifest = ""
	}
	pods := map[string]string{"free": "l1", "linux": "l1", "windows": "w1"}
	for name, node := range pods {
		manifest += fmt.Sprintf(restlessTemplate, namespace, name, node, image, strings.Join(urls, `", "`), asker())
	}
	cluster.Apply(t, manifest)
	for name, node := range pods {
		n.found(t, name, node)
	}
	listener.all(t, n.at["free"])
	refused := slices.Concat(n.at["linux"], n.at["windows"])
	for name, p := range n.inside {
		eventually(t, 60*time.Second, name+" sends", func() error {
			if sent := p.sent(t); sent < 200 {
				return fmt.Errorf("so far %d packets", sent)
			}
			return nil
		})
	}
	listener.none(t, refused)
	n.remove(t, "deny")
	listener.all(t, refused) // they would have come
}

// sent is how many packets a pod has sent.
func (p place) sent(t testing.TB) int {
	t.Helper()
	var links []struct {
		Stats64 struct{ Tx struct{ Packets int } }
	}
	if err := json.Unmarshal([]byte(p.must(t, "ip", "-s", "-j", "link", "show", "dev", "eth0")), &links); err != nil ||
		len(links) != 1 {
		t.Fatalf("%s: links %v: %v", p, links, err)
	}
	return links[0].Stats64.Tx.Packets
}

// TestNewPodsSendNothingThatIsRefused from their first packet on.
func TestNewPodsSendNothingThatIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("policy first", func(t *testing.T) {
		t.Parallel()
		sendsNothing(t, "closed-before", 9091, func() {})
	})
	t.Run("policy and pods at once", func(t *testing.T) {
		t.Parallel()
		sendsNothing(t, "closed-at-once", 9092, nil)
	})
}

// TestNewPodsSendNothingWhileTheControllerDies, and what was there for them leaves no row.
func TestNewPodsSendNothingWhileTheControllerDies(t *testing.T) {
	long(t)
	before := northboundAtRest(t)
	sendsNothing(t, "closed-meanwhile", 9093, func() { cluster.Must(t, "kill", "central", leader(t)) })
	cluster.Kubectl(t, "delete", "namespace", "closed-meanwhile", "--timeout=60s")
	eventually(t, 30*time.Second, "the Northbound is as before", func() error {
		if after := northbound(t); !slices.Equal(after, before) {
			return fmt.Errorf("it differs: %s", difference(before, after))
		}
		return nil
	})
}
