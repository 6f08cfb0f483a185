package node

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hostservice"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

// An agent that has just begun knows no daemons yet: those that the Node tells of stay, so that nobody takes their
// ports meanwhile.
func TestListenersStayWhileNobodyHasLooked(t *testing.T) {
	client := nodetest.FakeAPI()
	s := &services{}
	var err error
	if s.node, err = newOwnNode(client, "n1", func() {}); err != nil {
		t.Fatal(err)
	}
	if s.Watcher, err = hostservice.New(hostservice.Config{Client: client, Node: "n1"}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]contract.Listeners{
		"": nil, `{"listeners":["tcp/9100",""]}`: nil,
		`{"chassis":"n1","listeners":["tcp/9100"]}`: {{Protocol: "tcp", Port: 9100}},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		node.Annotations = map[string]string{contract.NodeFactsAnnotation: text}
		if err := s.node.informer.GetStore().Add(node); err != nil {
			t.Fatal(err)
		}
		if got := s.listeners(); !slices.Equal(got, want) {
			t.Errorf("of %s: %v, want %v", text, got, want)
		}
	}
}

func TestRoutesOfVirtualAddresses(t *testing.T) {
	network := contract.NodeNetwork{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}
	got := vipRoutes(network, []netip.Addr{netip.MustParseAddr("192.0.2.50"), netip.MustParseAddr("2001:db8::50")})
	want := []platform.Route{{Destination: netip.MustParsePrefix("192.0.2.50/32"),
		NextHop: netip.MustParseAddr("10.244.1.1"), Source: netip.MustParseAddr("10.244.1.2")}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

func TestAddressesThatNoServiceTakes(t *testing.T) {
	for server, want := range map[string]string{
		"172.29.0.1:6443": "172.29.0.1", "172.29.0.1": "172.29.0.1", "[2001:db8::1]:6443": "2001:db8::1",
		"[2001:db8::1]": "2001:db8::1", "api.example:6443": "",
	} {
		s := &services{apiServer: &apiServer{host: server}, config: nodeconfig.Config{
			EncapAddress: netip.MustParseAddr("172.30.0.1"), OVNSouthbound: "ssl:172.30.0.9:6642,unix:/run/sb.sock",
		}}
		reserved := s.reserved(contract.NodeFacts{Gateway: &contract.Gateway{
			Addresses: []netip.Prefix{netip.MustParsePrefix("172.31.0.1/24")},
			NextHops:  []netip.Addr{netip.MustParseAddr("172.31.0.254")},
		}})
		all := []string{"172.30.0.1", "172.30.0.9", "172.31.0.1", "172.31.0.254"}
		if want != "" {
			all = append(all, want)
		}
		if len(reserved) != len(all) {
			t.Errorf("of API server %s: %v", server, reserved)
		}
		for _, one := range all {
			if !slices.Contains(reserved, netip.MustParseAddr(one)) {
				t.Errorf("of API server %s: %v lacks %s", server, reserved, one)
			}
		}
	}
}
