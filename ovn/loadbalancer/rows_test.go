package loadbalancer

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
)

// TestRows: the load balancers that a Service of one port has, and what a client gets at one of them.
func TestRows(t *testing.T) {
	http := objects.ServicePort{Name: "http", Protocol: "tcp", Port: 80}
	nodes := &Nodes{Names: []string{"n1", "n2", "w1"}, Gateways: []string{"n1"}, Windows: map[string]struct{}{"w1": {}},
		Widths: [2]int{1, 0}, Balanced: func(objects.Claim) bool { return false },
		Announcer: func(addr netip.Addr) (string, bool) { return "n1", addr == netip.MustParseAddr("203.0.113.9") }}
	for _, c := range []struct {
		name string
		edit func(*objects.Service)
		rows []string
		// at is what clients get on the switch of n2, as ADDRESS [ENDPOINTS].
		at []string
	}{
		{"a ClusterIP", func(*objects.Service) {},
			[]string{"tcp: 10.96.0.10:80=10.244.0.3:8080,10.244.1.3:8080"},
			[]string{"10.96.0.10:80 [10.244.0.3:8080 10.244.1.3:8080]"}},
		{"served by local endpoints", func(s *objects.Service) { s.InternalLocal = true }, []string{
			"tcp@*: 10.96.0.10:80=",
			"tcp@n1: 10.96.0.10:80=10.244.0.3:8080",
			"tcp@n2: 10.96.0.10:80=10.244.1.3:8080"},
			[]string{"10.96.0.10:80 [10.244.1.3:8080]"}},
		{"a NodePort", func(s *objects.Service) {
			s.NodePorts = []objects.NodePort{{ServicePort: http, Number: 30080}}
		}, []string{
			"tcp/nodeport4: ^HOSTIP4:30080=10.244.0.3:8080,10.244.1.3:8080 ^NODEIP4_0:30080=10.244.0.3:8080,10.244.1.3:8080",
			"tcp: 10.96.0.10:80=10.244.0.3:8080,10.244.1.3:8080"}, []string{
			"10.96.0.10:80 [10.244.0.3:8080 10.244.1.3:8080]",
			"^HOSTIP4:30080 [10.244.0.3:8080 10.244.1.3:8080]",
			"^NODEIP4_0:30080 [10.244.0.3:8080 10.244.1.3:8080]"}},
		{"an address that a gateway router answers for", func(s *objects.Service) {
			s.Ingress = []netip.Addr{netip.MustParseAddr("203.0.113.9")}
		}, []string{
			"tcp/announced: 203.0.113.9:80=10.244.0.3:8080,10.244.1.3:8080",
			"tcp/announced@gw=n1: 203.0.113.9:80=10.244.0.3:8080,10.244.1.3:8080",
			"tcp: 10.96.0.10:80=10.244.0.3:8080,10.244.1.3:8080"}, []string{
			"10.96.0.10:80 [10.244.0.3:8080 10.244.1.3:8080]",
			"203.0.113.9:80 [10.244.0.3:8080 10.244.1.3:8080]"}},
		{"one that is ignored", func(s *objects.Service) { s.Ignored = true }, nil,
			[]string{"10.96.0.10:80 [10.244.0.3:8080 10.244.1.3:8080]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &objects.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Ports: []objects.ServicePort{http}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
			c.edit(s)
			from := []*objects.EndpointSlice{{Service: "web",
				Ports: []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
				Endpoints: []objects.Endpoint{
					{Addr: netip.MustParseAddr("10.244.0.3"), Node: "n1", Ready: true, Serving: true},
					{Addr: netip.MustParseAddr("10.244.1.3"), Node: "n2", Ready: true, Serving: true}}}}
			change, to := Rows(s, from, nodes)
			var rows []string
			for _, r := range change.Rows {
				row := r.Model.(*nb.LoadBalancer)
				text := r.Key + ":"
				for _, at := range slices.Sorted(maps.Keys(row.Vips)) {
					text += " " + at + "=" + row.Vips[at]
				}
				rows = append(rows, text)
			}
			slices.Sort(rows)
			same(t, "rows", rows, c.rows)
			var served []string
			for _, one := range At(s, "tcp", from, nodes, to.Endpoints, OnSwitches, "n2") {
				served = append(served, fmt.Sprint(one.At, " ", one.Endpoints))
			}
			same(t, "at the switch of n2", served, c.at)
			if found := Problems(s, from, to, nodes); len(found) > 0 {
				t.Errorf("told %v", found)
			}
		})
	}
}

// TestRowsKeepNoFrontends: the endpoints of all Services would be in memory until the rows are written.
func TestRowsKeepNoFrontends(t *testing.T) {
	nodes := &Nodes{Names: []string{"n1"}, Balanced: func(objects.Claim) bool { return false }}
	s := &objects.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Ports:      []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 80}},
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
	r := newRows(northbound.ServiceOwner("default/web"))
	list := frontends(s, "tcp", nil, nodes, 10)
	kept := weak.Make(&list[0])
	r.serve(s, &list[0], nodes)
	runtime.GC()
	if len(r.Rows) != 1 || kept.Value() != nil {
		t.Errorf("%d rows keep their frontend: %v", len(r.Rows), kept.Value() != nil)
	}
	runtime.KeepAlive(r)
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
