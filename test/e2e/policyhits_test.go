//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/test/hyperv"
	weftlab "github.com/weftnet/weft/test/lab"
)

// countHits: who has a kubeconfig is told what a rule has met, on a Linux and on a Windows node.
func (n tenancy) countHits(t *testing.T) {
	n.removeAll(t)
	put(t, n.policy("counted", "podSelector: {matchExpressions: [{key: name, operator: NotIn, values: [client]}]}, "+
		"ingress: [{ports: [{port: 8080}]}]"))
	n.says(t, "counted", "InForce")
	for server, node := range map[string]string{"linux": "l1", "windows": "w1"} {
		read := func(rule string) (c api.PolicyHits, err error) {
			list, err := readHits(t, n.name)
			if err != nil {
				return c, err
			}
			for _, c := range list.Items {
				if c.Namespace != n.name {
					return c, fmt.Errorf("%+v is another namespace's", c)
				}
				i := slices.IndexFunc(c.Nodes, func(h api.NodeHits) bool { return h.Node == node })
				if c.Policy == "NetworkPolicy "+n.name+"/counted" && c.Rule == rule && i >= 0 {
					c.Packets, c.Bytes = c.Nodes[i].Packets, c.Nodes[i].Bytes
					return c, nil
				}
			}
			return c, fmt.Errorf("%s has no %s among %+v", node, rule, list)
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

// readHits has no more than a kubeconfig.
func readHits(t testing.TB, namespace string) (list api.PolicyHitsList, err error) {
	t.Helper()
	kubeconfig := filepath.Join(weftlab.StateDir(cluster.Name), "pki", "admin.kubeconfig")
	out, err := host("central").try(filepath.Join(repository(), "bin/weft"), "policy", "hits", "-o", "json", "-n",
		namespace, "--kubeconfig", kubeconfig)
	if err != nil {
		return list, err
	}
	return list, json.Unmarshal([]byte(out), &list)
}

// passErrors: an ICMP error of an allowed connection comes to who has asked, though a policy lets no ICMP in.
func (n tenancy) passErrors(t *testing.T) {
	n.removeAll(t)
	const closed = 9
	put(t, n.policy("isolated", fmt.Sprintf("podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: "+
		"%[1]d, protocol: UDP}]}], egress: [{ports: [{port: %[1]d, protocol: UDP}]}]", closed)))
	n.says(t, "isolated", "InForce")
	for from, tos := range map[string][]string{"linux": {"windows", "client"}, "windows": {"linux", "client"}} {
		for _, to := range tos {
			for _, a := range n.at[to] {
				if a.Is4() && slices.Contains([]string{from, to}, "windows") && hasFault(hyperv.ICMPErrors) {
					continue
				}
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
