package ovn

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
)

// TestBalancerNames: what lb-list shows of a name, its first 16 characters, tells whose it is.
func TestBalancerNames(t *testing.T) {
	for _, c := range []struct{ namespace, name, where, shown, want string }{
		{"default", "web", "cluster", "web/cluster/defa", "web/cluster/default/tcp"},
		{"kube-system", "kube-dns", "cluster", "kube-dns/cluster", "kube-dns/cluster/kube-system/tcp"},
		{"default", "web", "external@gw=l1", "web/external@gw=", "web/external@gw=l1/default/tcp"},
		{"default", "sixteen-letters1", "cluster", "sixteen-letters1", "sixteen-letters1/cluster/default/tcp"},
		{"monitoring", "kube-prometheus-stack-grafana", "nodeport4", "kube-pro~grafana",
			"kube-pro~grafana/nodeport4/monitoring/kube-prometheus-stack-grafana/tcp"},
		{"monitoring", "kube-prometheus-stack-operator", "cluster", "kube-pro~perator",
			"kube-pro~perator/cluster/monitoring/kube-prometheus-stack-operator/tcp"},
	} {
		got := northbound.LoadBalancerName(c.namespace, c.name, c.where, "tcp")
		if got != c.want || got[:northbound.ShownName] != c.shown {
			t.Errorf("load balancer of %s/%s: %q, shown as %q; want %q, shown as %q", c.namespace, c.name, got,
				got[:northbound.ShownName], c.want, c.shown)
		}
	}
}

// TestBalancersTellWhoseTheyAre, in a cluster with load balancers of all sorts: no two have one name, and what is
// shown of it belongs to one object.
func TestBalancersTellWhoseTheyAre(t *testing.T) {
	w := newWorld()
	mixedWorld(w)
	for i, name := range []string{"kube-prometheus-stack-grafana", "kube-prometheus-stack-operator",
		"kube-prometheus-stack-prometheus"} {
		w.put(w.service(name, fmt.Sprint("10.96.1.", i)),
			w.slice(name, name, []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 80}}, ready("10.244.1.3", "l1")))
	}
	c := newCluster(ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); withShared(c) }))
	c.begin(records.Records{}, w.Keys(), w.Get)
	names, owners := map[string]bool{}, map[string]string{}
	for _, change := range c.takeEverything() {
		for _, r := range change.Rows {
			row, ok := r.Model.(*nb.LoadBalancer)
			if !ok {
				continue
			}
			if names[row.Name] {
				t.Errorf("two load balancers have the name %s", row.Name)
			}
			names[row.Name] = true
			shown := row.Name[:min(northbound.ShownName, len(row.Name))]
			if other := owners[shown]; other != "" && other != string(change.Owner) {
				t.Errorf("lb-list shows %s of load balancers of %s and %s", shown, other, change.Owner)
			}
			owners[shown] = string(change.Owner)
		}
	}
	if len(names) < 8 {
		t.Errorf("only %d load balancers: %v", len(names), names)
	}
}
