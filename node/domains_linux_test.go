package node

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

var domainPolicies = schema.GroupVersionResource{Group: "policy.networking.k8s.io", Version: "v1alpha2",
	Resource: "clusternetworkpolicies"}

// What a DNS server on the node answers a pod, and the host, is reported.
func TestAgentWatchesItsDNSServers(t *testing.T) {
	c := newCluster(t)
	own := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{
			v1alpha1.ResolvedNamesResource: "ResolvedNamesList", domainPolicies: "ClusterNetworkPolicyList",
			{Group: "policy.networking.k8s.io", Version: "v1alpha1",
				Resource: "adminnetworkpolicies"}: "AdminNetworkPolicyList"})
	nodetest.WithoutGaps(own)
	c.own = own
	c.decide()
	c.startAgent()
	c.awaitReady()
	policy := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.networking.k8s.io/v1alpha2",
		"kind": "ClusterNetworkPolicy", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"egress": []any{
			map[string]any{"to": []any{map[string]any{"domainNames": []any{"www.example.com"}}}}}}}}
	if _, err := c.own.Resource(domainPolicies).Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	server, client := c.newPod("dns", 3), c.newPod("client", 4)
	for _, p := range []*pod{server, client} {
		c.allocate(p)
		c.mustAdd(p)
	}
	node, port := testNode, int32(53)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{server.address.String()}, NodeName: &node,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: server.Namespace, Name: server.Name,
				UID: apitypes.UID(server.UID)}}}}
	if _, err := c.client.DiscoveryV1().EndpointSlices("kube-system").Create(t.Context(), slice,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for to, addr := range map[netip.Addr]string{client.address: "203.0.113.1",
		contract.ManagementAddress(testSubnet): "203.0.113.2"} {
		c.eventually(func() error { // until the answers are watched
			return errors.Join(c.answer(server, to, addr), c.reported(addr))
		})
	}
}

// answer has a pod say by DNS that www.example.com has an address.
func (c *cluster) answer(from *pod, to netip.Addr, addr string) error {
	name := dnsmessage.MustNewName("www.example.com.")
	message := dnsmessage.Message{Header: dnsmessage.Header{Response: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		Answers: []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 60},
			Body: &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()}}}}
	text, err := message.Pack()
	if err != nil {
		return err
	}
	return nodetest.Inside(from.sandbox, func() error {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.address, 53)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 4000)))
		if err != nil {
			return err
		}
		_, err = conn.Write(text)
		if errors.Is(err, syscall.ECONNREFUSED) { // of the answer before: nobody listens there
			err = nil
		}
		return errors.Join(err, conn.Close())
	})
}

// reported is nil once the node's object has an address.
func (c *cluster) reported(addr string) error {
	object, err := c.own.Resource(v1alpha1.ResolvedNamesResource).Get(c.tb.Context(), testNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var names v1alpha1.ResolvedNames
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &names); err != nil {
		return err
	}
	for _, name := range names.Names {
		if slices.ContainsFunc(name.Addresses, func(a v1alpha1.ResolvedAddress) bool { return a.Address == addr }) {
			return nil
		}
	}
	return errors.New(addr + " is not reported")
}

// The host's own answers leave by the management device and by the one that has the address.
func TestDevicesOfTheHostsAnswers(t *testing.T) {
	c := newReadyCluster(t)
	linux := c.agent.platform.(*linux.Platform)
	for addr, want := range map[string][]string{
		"172.30.0.1": {platform.ManagementDevice, "ul0"},
		contract.ManagementAddress(testSubnet).String(): {platform.ManagementDevice}, "192.0.2.1": nil,
	} {
		if got := linux.AnswerDevices(netip.MustParseAddr(addr)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
	if device, attached := c.agent.ovs.DeviceOf(cni.Pod{Namespace: "shop", Name: "nobody"}); attached {
		t.Errorf("a pod without a UID has %s", device)
	}
}
