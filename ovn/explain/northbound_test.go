package explain

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/acl"
)

// inForce has questions judged by the rows that objects ask for, as an edit has changed them in the Northbound.
func inForce(t *testing.T, objects string, edit func(rows *acl.Rows)) *Cluster {
	t.Helper()
	c, err := newCluster(read(t, objects), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newCluster(read(t, objects), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	edit(&other.rows)
	if c.actual, err = acl.New(other.rows); err != nil {
		t.Fatal(err)
	}
	if err := c.resolveAs(other.rows.AddressSets); err != nil {
		t.Fatal(err)
	}
	return c
}

const domains = twoNodes + `
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: names}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Accept, to: [{domainNames: ["*.example.com"]}]}, {action: Deny, to: [{networks: [198.51.100.0/24]}]}]}}`

func TestDomains(t *testing.T) {
	const accepted, denied = "Accept by ClusterNetworkPolicy names, spec.egress[0]",
		"Deny by ClusterNetworkPolicy names, spec.egress[1]"
	c, err := newCluster(read(t, domains), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	until := func(d time.Duration, addr string) v1alpha1.ResolvedAddress {
		return v1alpha1.ResolvedAddress{Address: addr, Until: metav1.NewTime(now.Add(d))}
	}
	err = c.resolve([]*v1alpha1.ResolvedNames{{Names: []v1alpha1.ResolvedName{
		{Name: "www.example.com", Addresses: []v1alpha1.ResolvedAddress{until(time.Minute, "198.51.100.1"),
			until(-time.Second, "198.51.100.2"), until(time.Minute, "2001:db8::1")}},
		{Name: "example.com", Addresses: []v1alpha1.ResolvedAddress{until(time.Minute, "198.51.100.3")}},
		{Name: "a.b.example.com", Addresses: []v1alpha1.ResolvedAddress{until(time.Minute, "198.51.100.4")}},
	}}}, now)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{"198.51.100.1": accepted, "198.51.100.2": denied, "198.51.100.3": denied,
		"198.51.100.4": accepted} {
		if got := ask(t, c, "web", addr+":443"); !strings.Contains(got, want) || strings.Contains(got, "note:") {
			t.Errorf("%s: there is no %q, or a note, in:\n%s", addr, want, got)
		}
	}

	c = inForce(t, domains, func(rows *acl.Rows) {
		for _, set := range rows.AddressSets {
			if strings.HasPrefix(set.Name, "domain_") && strings.HasSuffix(set.Name, "_ip4") {
				set.Addresses = []string{"198.51.100.5"}
			}
		}
	})
	for addr, want := range map[string]string{"198.51.100.5": accepted, "198.51.100.1": denied} {
		if got := ask(t, c, "web", addr+":443"); !strings.Contains(got, want) || strings.Contains(got, "note:") {
			t.Errorf("%s: there is no %q, or a note, in:\n%s", addr, want, got)
		}
	}
}

// TestBetweenSwitches has an operator's ACL refuse what leaves a switch by its router, or comes in by it.
func TestBetweenSwitches(t *testing.T) {
	const ours = "    at the router  drop: ACL ours, which is not a policy's\n"
	for _, q := range []struct {
		node      string
		direction nb.ACLDirection
		want      string
	}{
		{"n2", nb.ACLDirectionToLport, "egress of default/web: refused\n    no policy selects it: allowed by default\n" +
			ours + "  ingress of default/db: allowed\n    NetworkPolicy  Accept"},
		{"n1", nb.ACLDirectionFromLport, "egress of default/web: allowed\n    no policy selects it: allowed by default\n  " +
			"ingress of default/db: refused\n" + ours},
	} {
		c := inForce(t, twoNodes, func(rows *acl.Rows) {
			name := "ours"
			rows.ACLs = append(rows.ACLs, &nb.ACL{UUID: name, Name: &name, Direction: q.direction, Priority: 2000, Match: "tcp",
				Action: nb.ACLActionDrop})
			for _, s := range rows.Switches {
				if s.Name == q.node {
					s.ACLs = append(s.ACLs, name)
				}
			}
		})
		if got := ask(t, c, "web", "db:5432"); !strings.Contains(got, q.want) {
			t.Errorf("%s, %s: there is no %q in:\n%s", q.node, q.direction, q.want, got)
		}
	}
}
