package ovn

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

func (w *world) serviceCIDR(name string, ranges ...string) *objects.ServiceCIDR {
	texts := make([]any, len(ranges))
	for i, text := range ranges {
		texts[i] = text
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR",
		"spec": map[string]any{"cidrs": texts}}}
	meta := w.meta("", name)
	o.SetName(name)
	o.SetUID(meta.UID)
	return trim(o).(*objects.ServiceCIDR)
}

// ranges are those of ClusterIPs as three see them: the cluster's router, and the annotations of all nodes.
func (s *scene) ranges() string {
	s.t.Helper()
	var dropped []string
	for _, r := range s.c.changeOf(northbound.ClusterOwner).Rows {
		if row, ok := r.Model.(*nb.LogicalRouterPolicy); ok && strings.HasPrefix(r.Key, "unknown service/") {
			_, text, _ := strings.Cut(row.Match, "== ")
			dropped = append(dropped, text)
		}
	}
	for _, name := range s.c.nodes.Names() {
		network, err := objects.ParseAnnotation[contract.NodeNetwork](contract.NodeNetworkAnnotation,
			s.objects[objects.Key{Kind: objects.NodeKind, Name: name}].(*objects.Node).Network)
		if err != nil {
			s.t.Fatal(err)
		}
		if got, want := ipam.Join(network.ServiceCIDRs), strings.Join(dropped, ","); got != want {
			s.t.Errorf("node %s routes %s, the cluster's router knows %s", name, got, want)
		}
	}
	return strings.Join(dropped, " ")
}

func TestServiceCIDRs(t *testing.T) {
	s := newScene(t, ovntest.Dual)
	n1 := s.node("n1", "10.244.1.0/24", "fd00:10:244:1::/64")
	n1.Facts = ovntest.Facts(1, true)
	s.do(n1, s.node("n2", "10.244.2.0/24", "fd00:10:244:2::/64"))
	first := "10.96.0.0/16 fd00:10:96::/112"
	s.want("from the start", s.ranges(), first)

	s.do(s.serviceCIDR("kubernetes", "10.96.0.0/16", "fd00:10:96::/112"))
	s.want("the API server has the same", s.ranges(), first)
	s.do(s.serviceCIDR("more", "10.97.0.0/16", "fd00:10:97::/112"))
	s.want("another", s.ranges(), "10.96.0.0/16 10.97.0.0/16 fd00:10:96::/112 fd00:10:97::/112")
	s.do(s.serviceCIDR("part", "10.97.4.0/24"))
	s.want("part of another", s.ranges(), "10.96.0.0/16 10.97.0.0/16 fd00:10:96::/112 fd00:10:97::/112")
	s.remove(objects.ServiceCIDRKind, "more")
	s.want("the other part is gone", s.ranges(), "10.96.0.0/16 10.97.4.0/24 fd00:10:96::/112")
	s.remove(objects.ServiceCIDRKind, "part", "kubernetes")
	s.want("none is left", s.ranges(), first)
	s.wantReasons()

	s.do(s.serviceCIDR("more", "10.97.0.0/16"), s.node("n3", "10.244.3.0/24", "fd00:10:244:3::/64"))
	s.want("a node that came with it", s.ranges(), "10.96.0.0/16 10.97.0.0/16 fd00:10:96::/112")
}

// TestServiceCIDRsThatCannotBe are told, and the others are there; what was in the way may go.
func TestServiceCIDRsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"pods":               {"10.244.128.0/24", "pod-cidrs 10.244.0.0/16"},
		"all":                {"10.0.0.0/8", "pod-cidrs 10.244.0.0/16"},
		"join":               {"100.64.0.0/24", "join-cidrs 100.64.0.0/16"},
		"a node's address":   {"192.0.2.0/28", "address 192.0.2.1 of Node n1"},
		"a node's network":   {"203.0.113.128/25", "gateway address 203.0.113.1/24 of Node n1"},
		"the shared gateway": {"203.0.113.128/26", "shared-gateway-addresses 203.0.113.50/24"},
		"another family":     {"fd00:10:97::/112", "no address of the family"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(config *settings.Config) {
				if name == "the shared gateway" {
					withShared(config)
					config.SharedGatewayAddresses, config.SharedGatewayNextHops = config.SharedGatewayAddresses[:1],
						config.SharedGatewayNextHops[:1]
				}
			})
			n1 := s.node("n1", "10.244.1.0/24")
			n1.Facts = ovntest.Facts(1, false)
			if name == "the shared gateway" {
				n1.Facts = ""
			}
			s.do(s.serviceCIDR("bad", c.text, "10.97.0.0/16"), n1)
			s.want("ranges", s.ranges(), "10.96.0.0/16 10.97.0.0/16")
			if len(s.problems) != 1 {
				t.Fatalf("problems %v", s.problems)
			}
			for _, word := range []string{"ServiceCIDR bad", "BadServiceCIDR", "spec.cidrs", c.text, c.want} {
				if !strings.Contains(s.problems[0].String(), word) {
					t.Errorf("%q lacks %q", s.problems[0], word)
				}
			}
			s.problems = nil
			s.remove(objects.NodeKind, "n1")
			want := "10.96.0.0/16 10.97.0.0/16"
			if strings.HasPrefix(name, "a node's") {
				want = fmt.Sprintf("10.96.0.0/16 10.97.0.0/16 %s", c.text)
			}
			s.want("without the node", s.ranges(), want)
			s.wantReasons()
		})
	}
}

// TestANodesEventSettlesServiceCIDRs only if the node comes to have addresses of one, or has them no more.
func TestANodesEventSettlesServiceCIDRs(t *testing.T) {
	s := newScene(t, nil)
	n1, n2 := s.node("n1", "10.244.1.0/24"), s.node("n2", "10.244.2.0/24")
	n1.Facts, n2.Facts = ovntest.Facts(1, false), ovntest.Facts(2, false)
	s.do(n1, n2, s.serviceCIDR("more", "192.0.2.0/30", "10.97.0.0/16"))
	s.wantMessage("ServiceCIDR more", "192.0.2.1 of Node n1")
	// settled says what is told after a change of a node, all of which is forgotten.
	settled := func(name string, edit func(*objects.Node)) string {
		t.Helper()
		delete(s.c.Told, northbound.ServiceCIDROwner("more"))
		after := *s.objects[objects.Key{Kind: objects.NodeKind, Name: name}].(*objects.Node)
		edit(&after)
		s.do(&after)
		if len(s.problems) > 1 {
			t.Fatalf("problems %v", s.problems)
		}
		for _, p := range s.problems {
			s.problems = nil
			return p.Message
		}
		return ""
	}
	wantTold := func(what, got, want string) {
		t.Helper()
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	wantTold("labels", settled("n1", func(n *objects.Node) {
		n.Labels = objects.NewLabelSet(map[string]string{"a": "b"})
	}), "")
	wantTold("readiness", settled("n2", func(n *objects.Node) { n.Ready = true }), "")
	wantTold("another address", settled("n2", func(n *objects.Node) { n.Facts = ovntest.Facts(5, false) }),
		"192.0.2.1 of Node n1")
	wantTold("the first one's", settled("n1", func(n *objects.Node) { n.Facts = ovntest.Facts(6, false) }), "")
	s.want("ranges", s.ranges(), "10.96.0.0/16 10.97.0.0/16 192.0.2.0/30")
	wantTold("an address of the range", settled("n2", func(n *objects.Node) { n.Facts = ovntest.Facts(3, false) }),
		"192.0.2.3 of Node n2")
	s.want("ranges", s.ranges(), "10.96.0.0/16 10.97.0.0/16")
}
