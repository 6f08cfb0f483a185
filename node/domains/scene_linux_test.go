package domains

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/node/nodetest"
)

// The tests have a network of their own.
func TestMain(m *testing.M) { nodetest.Main(m) }

// pod is a network namespace behind a veth pair, whose host's end is a router's.
type pod struct {
	device      string
	addr, addr6 netip.Addr
	host, host6 netip.Addr
	mtu         int
	namespace   netns.NsHandle
}

func newPod(t *testing.T, device string, number int) *pod {
	t.Helper()
	p := &pod{device: device, mtu: 1400,
		addr: netip.AddrFrom4([4]byte{10, 9, byte(number), 2}), host: netip.AddrFrom4([4]byte{10, 9, byte(number), 1}),
		addr6: netip.MustParseAddr(fmt.Sprintf("fd00:%d::2", number)),
		host6: netip.MustParseAddr(fmt.Sprintf("fd00:%d::1", number))}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if p.namespace, err = netns.New(); err != nil { // and enters it
		t.Fatal(err)
	}
	t.Cleanup(func() { p.namespace.Close() })
	if err := netns.Set(home); err != nil {
		t.Fatal(err)
	}
	p.plug(t)
	t.Cleanup(p.unplug)
	return p
}

// plug makes the pair.
func (p *pod) plug(t *testing.T) {
	t.Helper()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: p.device, MTU: p.mtu}, PeerName: "eth0",
		PeerMTU: uint32(p.mtu), PeerNamespace: netlink.NsFd(p.namespace)}
	inside, err := netlink.NewHandleAt(p.namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	up := func(h *netlink.Handle, name string, addrs ...netip.Addr) error {
		link, err := h.LinkByName(name)
		for _, addr := range addrs {
			bits := 24
			if addr.Is6() {
				bits = 64
			}
			// IFA_F_NODAD
			err = errors.Join(err, h.AddrAdd(link,
				&netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())}, Flags: 2}))
		}
		return errors.Join(err, h.LinkSetUp(link))
	}
	if err := errors.Join(netlink.LinkAdd(veth), up(&netlink.Handle{}, p.device, p.host, p.host6),
		up(inside, "eth0", p.addr, p.addr6)); err != nil {
		t.Fatal(err)
	}
}

func (p *pod) unplug() {
	_ = netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: p.device}})
}

// do runs within the pod.
func (p *pod) do(t *testing.T, what func() error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := netns.Set(p.namespace); err != nil {
		t.Fatal(err)
	}
	err = what()
	if back := netns.Set(home); back != nil {
		t.Fatal(back)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// send is a datagram from an address and port of the caller's namespace.
func send(from, to netip.AddrPort, text []byte) error {
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write(text)
	return err
}

// scene is a node with DNS servers, and an API server that is only a store.
type scene struct {
	*testing.T
	client  *fake.Clientset
	own     *dynamicfake.FakeDynamicClient
	config  Config
	watcher *Watcher
	stop    func()

	mu      sync.Mutex
	open    int
	devices map[string]string // by pod
	hosts   map[netip.Addr][]string
}

func newScene(t *testing.T, names ...string) *scene {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{v1alpha1.ResolvedNamesResource: "ResolvedNamesList",
		policyResources[0]: "ClusterNetworkPolicyList", policyResources[1]: "AdminNetworkPolicyList"}
	s := &scene{T: t, client: nodetest.FakeAPI(), own: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(
		k8sruntime.NewScheme(), kinds),
		devices: map[string]string{}, hosts: map[netip.Addr][]string{}}
	s.config = Config{Client: s.client, Own: s.own, Node: "n1", Services: []string{"kube-system/kube-dns"},
		NodeUID: func() string { return "node-uid" },
		PodDevice: func(p Pod) (string, bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			device, ok := s.devices[p.Name]
			return device, ok
		},
		HostDevices: func(addr netip.Addr) []string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.hosts[addr]
		},
		Open: func(source Source) (io.ReadCloser, error) {
			capture, err := Open(source)
			if err == nil {
				s.mu.Lock()
				s.open++
				s.mu.Unlock()
			}
			return capture, err
		},
	}
	nodetest.WithoutGaps(s.own)
	s.policy("allow", names...)
	s.start()
	return s
}

func (s *scene) start() {
	var err error
	if s.watcher, err = New(s.config); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.watcher.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(s.stop)
}

func (s *scene) policy(name string, domains ...string) {
	s.Helper()
	var list []any
	for _, domain := range domains {
		list = append(list, domain)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.networking.k8s.io/v1alpha2",
		"kind":     "ClusterNetworkPolicy",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"egress": []any{map[string]any{"action": "Accept", "to": []any{map[string]any{"domainNames": list}}}}}}}
	if _, err := s.own.Resource(policyResources[0]).Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// serve makes a pod, or an address of the host's, an endpoint of the DNS Service.
func (s *scene) serve(name string, addr netip.Addr, device string) {
	s.Helper()
	s.mu.Lock()
	if device == "" {
		s.hosts[addr] = []string{"mgmt0"}
	} else {
		s.devices[name] = device
	}
	s.mu.Unlock()
	node, port, metrics, udp, tcp, metricsName, dnsName := "n1", int32(53), int32(9153), corev1.ProtocolUDP,
		corev1.ProtocolTCP, "metrics", "dns"
	family := discoveryv1.AddressTypeIPv4
	if addr.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	object := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-" +
		strings.ReplaceAll(addr.String(), ":", "-"),
		Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}}, AddressType: family,
		Ports: []discoveryv1.EndpointPort{{Name: &dnsName, Port: &port, Protocol: &udp}, {Port: &port, Protocol: &tcp},
			{Name: &metricsName, Port: &metrics, Protocol: &tcp}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{addr.String()}, NodeName: &node,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: name,
				UID: types.UID(name + "-uid")}}}}
	if _, err := s.client.DiscoveryV1().EndpointSlices("kube-system").Create(s.Context(), object,
		metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) eventually(what string, try func() error) {
	s.Helper()
	nodetest.Eventually(s, 20*time.Second, func() error {
		if err := try(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// captures waits for a number of captures to have been opened. Policies are watched where there is one.
func (s *scene) captures(number int) {
	s.Helper()
	s.eventually("captures", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open != number {
			return fmt.Errorf("%d captures were opened, want %d", s.open, number)
		}
		return nil
	})
}

// reported are the names and addresses in the node's object.
func (s *scene) reported() []string {
	s.Helper()
	object, err := s.own.Resource(v1alpha1.ResolvedNamesResource).Get(s.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	var names v1alpha1.ResolvedNames
	if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &names); err != nil {
		s.Fatal(err)
	}
	if len(names.OwnerReferences) != 1 || names.OwnerReferences[0].UID != "node-uid" {
		s.Errorf("the object's owners are %v", names.OwnerReferences)
	}
	var list []string
	for _, name := range names.Names {
		for _, a := range name.Addresses {
			list = append(list, name.Name+" "+a.Address)
		}
	}
	return list
}

func (s *scene) awaitReport(what string, want ...string) {
	s.Helper()
	s.eventually(what, func() error {
		if got := s.reported(); !slices.Equal(got, want) {
			return fmt.Errorf("reported are %q, want %q", got, want)
		}
		return nil
	})
}

func at(addr netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(addr, port) }
