package node

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

// greet has a pod answer TCP and UDP with its name, at each of its addresses: whether ":8080" means both families Go
// finds out once, perhaps in a namespace without any.
func (c *cluster) greet(p *pod, port uint16) {
	c.tb.Helper()
	for _, address := range []netip.Addr{p.address, p.address6} {
		at := netip.AddrPortFrom(address, port).String()
		if err := nodetest.Inside(p.sandbox, func() error {
			listener, err := net.Listen("tcp", at)
			if err != nil {
				return err
			}
			c.tb.Cleanup(func() { listener.Close() })
			go greetStreams(listener, p.Name)
			packets, err := net.ListenPacket("udp", at)
			if err != nil {
				return err
			}
			c.tb.Cleanup(func() { packets.Close() })
			go greetDatagrams(packets, p.Name)
			return nil
		}); err != nil {
			c.tb.Fatal(err)
		}
	}
}

func greetStreams(listener net.Listener, name string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, name)
		_ = conn.Close()
	}
}

func greetDatagrams(packets net.PacketConn, name string) {
	buffer := make([]byte, 100)
	for {
		_, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = packets.WriteTo([]byte(name), from)
	}
}

// asked is what answers the host at an address.
func asked(protocol, at string) (string, error) {
	conn, err := net.DialTimeout(protocol, at, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if protocol == "udp" {
		if _, err := conn.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	buffer := make([]byte, 100)
	n, err := conn.Read(buffer)
	return string(buffer[:n]), err
}

func (c *cluster) answers(name, protocol string, at ...string) {
	c.tb.Helper()
	for _, one := range at {
		c.eventually(func() error {
			got, err := asked(protocol, one)
			if err == nil && got != name {
				err = fmt.Errorf("got %q", got)
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", protocol, one, err)
			}
			return nil
		})
	}
}

// routed says whether the host has a route to an address in the table for virtual ones, see node/linux.
func routed(destination netip.Addr) bool {
	const vipTable = 0x7765
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL,
		&netlink.Route{Dst: netlink.NewIPNet(destination.AsSlice()),
			Table: vipTable}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
	return err == nil && len(routes) > 0
}

// The host asks itself for NodePorts and host ports, and others' addresses for what stands for them in OVN.
func TestTheHostIsAClientOfServices(t *testing.T) {
	c := newCluster(t)
	vip := netip.MustParseAddr("192.0.2.50")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.20", "fd96::20"},
			ExternalIPs: []string{vip.String()},
			Ports: []corev1.ServicePort{{Name: "tcp", Port: 80, NodePort: 30080},
				{Name: "udp", Port: 80, NodePort: 30080, Protocol: corev1.ProtocolUDP}}},
		// as some controllers give a node's
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: "172.30.0.1"}}}},
	}
	services := c.client.CoreV1().Services("shop")
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.decide()
	web := c.newPod("web", 3)
	c.allocate(web)
	pods := c.client.CoreV1().Pods("shop")
	object, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8081,
		Protocol: corev1.ProtocolTCP}}}}
	if _, err := pods.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// What the controller makes of the Service.
	for _, protocol := range []string{"tcp", "udp"} {
		for _, at := range []string{"169.254.169.4:30080", "192.0.2.50:80", "10.96.0.20:80"} {
			c.ovn.NB("--may-exist", "lb-add", protocol, at, web.address.String()+":8080", protocol)
		}
		c.ovn.NB("--may-exist", "lb-add", protocol, "[fd69::4]:30080", fmt.Sprintf("[%v]:8080", web.address6), protocol,
			"--", "ls-lb-add", testNode, protocol)
	}
	c.startAgent()
	c.awaitReady()
	c.mustAdd(web)
	c.greet(web, 8080)

	c.answers("web", "tcp", "127.0.0.1:30080", "172.30.0.1:30080", "[::1]:30080", "192.0.2.50:80", "172.30.0.1:80",
		"127.0.0.1:8081", "172.30.0.1:8081", "[::1]:8081")
	c.answers("web", "udp", "127.0.0.1:30080", "172.30.0.1:30080", "[::1]:30080", "192.0.2.50:80", "172.30.0.1:80")
	if routed(netip.MustParseAddr("172.30.0.1")) {
		t.Error("an address of the host's own is routed to the cluster")
	}
	for _, stand := range contract.HostVIPs {
		if !routed(stand) {
			t.Errorf("%v is not routed", stand)
		}
	}
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually(func() error {
		if got, err := asked("tcp", "127.0.0.1:30080"); err == nil {
			return fmt.Errorf("NodePort 30080 of a Service that is gone answers %q", got)
		}
		if routed(vip) {
			return fmt.Errorf("%v is still routed", vip)
		}
		return nil
	})
	c.answers("web", "tcp", "127.0.0.1:8081")
}

// Whoever may write Services gives one the address that the API server's name stands for: it is known as soon as
// the agent has asked there.
func TestNoServiceTakesWhatTheAPIServersNameStandsFor(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cluster := "{name: c, cluster: {server: 'http://localhost:" + port + "'}}"
	if err := os.WriteFile(kubeconfig,
		[]byte(
			"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: ["+
				cluster+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, _, api, err := newKubernetes(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s := &services{apiServer: api, config: nodeconfig.Config{EncapAddress: netip.MustParseAddr("172.30.0.1")}}
	if reserved := s.reserved(contract.NodeFacts{}); len(reserved) != 1 {
		t.Errorf("before it was asked: %v", reserved)
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err == nil {
		t.Fatal("the server has a Node")
	}
	if reserved := s.reserved(contract.NodeFacts{}); !slices.Contains(reserved, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("after that: %v", reserved)
	}
	for i := range 2 * mostDialed {
		if err := api.dial("tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 6443).String(),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	if known := api.addresses(); len(known) != mostDialed || known[0] != netip.MustParseAddr("192.0.2.31") {
		t.Errorf("remembered %v", known)
	}
}
