//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovn/hits"
	weftlab "github.com/weftnet/weft/test/lab"
)

// countHits: what a logged rule decides of a pod is counted on its node, and that of a Windows node's on its
// chassis host.
func (n tenancy) countHits(t *testing.T) {
	n.removeAll(t)
	put(t, n.policy("counted", "podSelector: {matchExpressions: [{key: name, operator: NotIn, values: [client]}]}, ingress: [{ports: [{port: 8080}]}]"))
	n.says(t, "counted", "InForce")
	for server, bridge := range map[string]struct{ machine, name string }{
		"linux": {"l1", "br-int"}, "windows": {hostOf(t, "w1"), "unix:/run/weft/chassis/w1/br-int.mgmt"},
	} {
		read := func(rule string) (c hits.Count, err error) {
			list, err := readHits(t, bridge.machine, bridge.name)
			if err != nil {
				return c, err
			}
			i := slices.IndexFunc(list, func(c hits.Count) bool {
				return c.Policy == "NetworkPolicy "+n.name+"/counted" && c.Rule == rule
			})
			if i < 0 {
				return c, fmt.Errorf("%s is not among %+v", rule, list)
			}
			return list[i], nil
		}
		const refusal, rule = "isolation from ingress", "spec.ingress[0]"
		asks := func(url string) heard { return n.inside["client"].ask("-timeout", "1s", url) }
		eventually(t, inForce, server+" counts what is refused", func() error {
			if err := asks(udpURL(n.at[server][0], 8081, "hostname")).unanswered(); err != nil {
				return err
			}
			c, err := read(refusal)
			if err == nil && (c.Action != "Deny" || c.Packets == 0 || c.Bytes == 0) {
				err = fmt.Errorf("%+v", c)
			}
			return err
		})
		if c, err := read(rule); err != nil || c.Packets > 0 {
			t.Errorf("%s: %+v, %v, before anybody has asked what is allowed", server, c, err)
		}
		eventually(t, inForce, server+" counts what is allowed", func() error {
			if err := asks(httpURL(n.at[server][0], 8080, "hostname")).failed(); err != nil {
				return err
			}
			c, err := read(rule)
			if err == nil && (c.Action != "Accept" || c.Packets == 0) {
				err = fmt.Errorf("%+v", c)
			}
			return err
		})
	}
}

func readHits(t testing.TB, machine, bridge string) (list []hits.Count, err error) {
	t.Helper()
	pki := filepath.Join(weftlab.StateDir(cluster.Name), "pki")
	out, err := host(machine).try(filepath.Join(repository(), "bin/weft"), "policy", "hits", "--output", "json", "--bridge", bridge,
		"--ovn-northbound", "ssl:"+netip.AddrPortFrom(managementAddresses(t, "central")[0], 6641).String(),
		"--ovn-ca", pki+"/ovn-central-ca.crt", "--ovn-certificate", pki+"/ovn-weft-controller.crt",
		"--ovn-private-key", pki+"/ovn-weft-controller.key",
		"--ovn-southbound", strings.Trim(host(machine).must(t, "ovs-vsctl", "get", "open", ".", "external_ids:ovn-remote"), `"`))
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal([]byte(out), &list)
}

// passErrors: an ICMP error of an allowed connection comes to who has asked, though a policy lets no ICMP in.
func (n tenancy) passErrors(t *testing.T) {
	n.removeAll(t)
	const closed = 9
	put(t, n.policy("isolated", fmt.Sprintf("podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: %[1]d, protocol: UDP}]}], egress: [{ports: [{port: %[1]d, protocol: UDP}]}]", closed)))
	n.says(t, "isolated", "InForce")
	for from, tos := range map[string][]string{"linux": {"windows", "client"}, "windows": {"linux", "client"}} {
		for _, to := range tos {
			for _, a := range n.at[to] {
				eventually(t, inForce, from+" gets no echo of "+to, func() error {
					if _, err := n.inside[from].try("ping", "-c", "1", "-W", "1", a.String()); err == nil {
						return fmt.Errorf("%s answers", a)
					}
					return nil
				})
				eventually(t, inForce, from+" is told that "+to+" has nobody there", func() error {
					return n.inside[from].ask("-timeout", "1s", udpURL(a, closed, "anybody")).refused()
				})
			}
		}
	}
}
