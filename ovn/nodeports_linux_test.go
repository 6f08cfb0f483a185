package ovn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

// Addresses of the tests' node n1, see facts: its host's, its gateway router's, and of clients outside.
const (
	testHost, testHost6       = "192.0.2.1", "2001:db8:1::1"
	testGateway, testGateway6 = "203.0.113.1", "2001:db8::1"
	testClient, testClient6   = "203.0.113.254", "2001:db8::ffff"
)

// visit is a client's and what comes of it: by which address the server knows it.
type visit struct {
	name, namespace, to, as string
}

const (
	refused  = "refused"
	noAnswer = "no answer"
)

func (d *datapath) visits(list ...visit) {
	d.t.Helper()
	for _, v := range list {
		d.patience = nodetest.Patience
		if v.as == noAnswer {
			d.patience = 500 * time.Millisecond
		}
		answer := d.ask(v.namespace, "", "tcp", v.to)
		got := answer.client.Addr().Unmap().String()
		var timeout net.Error
		switch {
		case errors.Is(answer.err, syscall.ECONNREFUSED):
			got = refused
		case errors.As(answer.err, &timeout) && timeout.Timeout():
			got = noAnswer
		case answer.err != nil:
			got = answer.err.Error()
		}
		if got != v.as {
			d.t.Errorf("%s: %s asks %s: %s, want %s", v.name, v.namespace, v.to, got, v.as)
		}
	}
}

// TestNodePortsWithPackets: NodePorts, external addresses and host ports, from outside and within, for both
// policies of who must see whom.
func TestNodePortsWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); allowHosts(c) }))
	d.pods("a", "b")
	d.host()
	d.outside(nil, "192.0.2.1/32 via "+testGateway, "198.51.100.0/24 via "+testGateway, "2001:db8:1::/64 via "+
		testGateway6, "2001:db8:5::/64 via "+testGateway6)
	d.serve("outside")
	a4, a6 := d.c.pods.At("default/a").Addresses()[0].Addr(), d.c.pods.At("default/a").Addresses()[1].Addr()
	s := d.service("web", "10.96.0.10", "fd00:10:96::a")
	s.Ports = append(s.Ports, objects.ServicePort{Name: "https", Protocol: "tcp", Port: 443}) // which nobody serves
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30080}, {ServicePort: s.Ports[1], Number: 30443}}
	s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr(testHost6)}
	http := []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}
	four, six := d.slice("web-4", "web", http, ready(a4.String(), "n1")),
		d.slice("web-6", "web", http, ready(a6.String(), "n1"))
	d.do(s, four, six)

	within := []visit{
		{"NodePort", "b", testHost + ":30080", "10.244.0.4"},
		{"NodePort, IPv6", "b", "[" + testHost6 + "]:30080", "fd00:10:244::4"},
		{"NodePort of the gateway", "b", testGateway + ":30080", "10.244.0.4"},
		{"NodePort, of itself", "a", testHost + ":30080", "169.254.169.5"},
		{"NodePort, of itself, IPv6", "a", "[" + testHost6 + "]:30080", "fd69::5"},
		{"NodePort, as the host's agent asks", "host", contract.HostVIPs[0].String() + ":30080", "10.244.0.2"},
		{"NodePort, as the host's agent asks, IPv6", "host", "[" + contract.HostVIPs[1].String() + "]:30080",
			"fd00:10:244::2"},
		{"external address", "b", "198.51.100.2:80", "10.244.0.4"},
		{"external address that is a node's", "b", "[" + testHost6 + "]:80", "fd00:10:244::4"},
		{"external address", "host", "198.51.100.2:80", "10.244.0.2"},
	}
	outside := func(as4, as6 string) []visit {
		return []visit{
			{"NodePort", "outside", testHost + ":30080", as4},
			{"NodePort of the gateway", "outside", testGateway + ":30080", as4},
			{"NodePort, IPv6", "outside", "[" + testHost6 + "]:30080", as6},
			{"external address", "outside", "198.51.100.2:80", as4},
			{"external address that is a node's", "outside", "[" + testHost6 + "]:80", as6},
		}
	}
	unserved := []visit{
		{"a port that nobody serves", "outside", testHost + ":30443", refused},
		{"a port that nobody serves, IPv6", "outside", "[" + testHost6 + "]:30443", refused},
		{"a port that nobody serves, of an external address", "outside", "198.51.100.2:443", refused},
		{"a port that nobody serves, from within", "b", testHost + ":30443", refused},
	}
	d.visits(within...)
	d.visits(outside("100.64.0.2", "fd98::2")...)
	d.visits(unserved...)

	near := *s
	near.ExternalLocal = true
	d.do(&near)
	d.visits(within...)
	d.visits(outside(testClient, testClient6)...)
	d.visits(unserved...)

	// A family that nobody serves, beside one that is.
	none6 := *six
	none6.Endpoints = nil
	d.do(&none6)
	d.visits(outside(testClient, refused)...)
	d.do(s)
	d.visits(outside("100.64.0.2", refused)...)
	d.do(&near, six)

	// An endpoint elsewhere: another node's host, as far as n1 can tell.
	elsewhere4, elsewhere6 := *four, *six
	elsewhere4.Endpoints, elsewhere6.Endpoints = []objects.Endpoint{ready(testClient, "n2")},
		[]objects.Endpoint{ready(testClient6, "n2")}
	d.do(&elsewhere4, &elsewhere6)
	d.visits(outside(noAnswer, noAnswer)...)
	d.visits(visit{"the outside by NodePort", "b", testHost + ":30080", testGateway})
	d.do(s)
	d.visits(outside(testGateway, testGateway6)...)

	// No endpoint at all is told to everybody.
	gone4, gone6 := *four, *six
	gone4.Endpoints, gone6.Endpoints = nil, nil
	d.do(&near, &gone4, &gone6)
	d.visits(outside(refused, refused)...)
	d.visits(visit{"no endpoint", "b", testHost + ":30080", refused})

	// Back to where it began, by the other type.
	plain := *s
	plain.NodePorts, plain.ExternalIPs = nil, nil
	d.do(four, six, &plain)
	d.visits(visit{"no NodePort any more", "b", contract.HostVIPs[0].String() + ":30080", noAnswer},
		visit{"the ClusterIP stays", "b", "10.96.0.10:80", "10.244.0.4"})
	d.do(s)
	d.visits(within...)
	d.visits(outside("100.64.0.2", "fd98::2")...)
}

// TestHostPortsWithPackets: pods that have ports of their node's.
func TestHostPortsWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("b")
	d.host()
	d.outside(nil, "192.0.2.1/32 via "+testGateway, "2001:db8:1::/64 via "+testGateway6)
	p := d.pod("default", "a", "n1")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 8443, Into: 8080},
		{Protocol: "tcp", IP: netip.MustParseAddr(testHost), Port: 8444, Into: 8080}}
	d.do(p)
	d.plug("a", contract.PodPort("default", "a"), string(p.UID), d.c.pods.At("default/a").Addresses())
	d.serve("a")
	d.visits(
		visit{"host port", "outside", testHost + ":8443", testClient},
		visit{"host port, IPv6", "outside", "[" + testHost6 + "]:8443", testClient6},
		visit{"host port of one address", "outside", testHost + ":8444", testClient},
		visit{"host port of another address", "outside", testGateway + ":8444", noAnswer},
		visit{"host port from a pod", "b", testHost + ":8443", "10.244.0.3"},
		visit{"host port of itself", "a", testHost + ":8443", "169.254.169.5"},
	)
	over := *p
	over.Completed = true
	d.do(&over)
	d.visits(visit{"host port of a pod that is over", "outside", testHost + ":8443", noAnswer})
}

// TestDaemonsPortsWithPackets: where a daemon of the node listens, pods that ask the node reach it, whatever a pod or a
// Service wants there. The Service's other addresses and its NodePort go on.
func TestDaemonsPortsWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("b")
	d.host(testHost+"/32", testHost6+"/128 nodad")
	d.serve("host")
	p := d.pod("default", "a", "n1")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 8080, Into: 8080}}
	d.do(p)
	d.plug("a", contract.PodPort("default", "a"), string(p.UID), d.c.pods.At("default/a").Addresses())
	d.serve("a")
	a4, a6 := d.c.pods.At("default/a").Addresses()[0].Addr().String(),
		d.c.pods.At("default/a").Addresses()[1].Addr().String()
	s := d.service("web", "10.96.0.10", "fd00:10:96::a")
	s.NodePorts, s.Ports[0].Port = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30080}}, 8080
	s.Ingress = []netip.Addr{netip.MustParseAddr(testHost), netip.MustParseAddr(testHost6)}
	http := []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}
	slices4, slices6 := d.slice("web-4", "web", http, ready(a4, "n1")), d.slice("web-6", "web", http, ready(a6, "n1"))
	n1 := *d.objects[objects.Key{Kind: objects.NodeKind, Name: "n1"}].(*objects.Node)
	listen := func(ports ...uint16) *objects.Node {
		now := n1
		now.Facts = ovntest.EditFacts(1, true, func(f *contract.NodeFacts) {
			for _, port := range ports {
				f.Listeners = append(f.Listeners, contract.Listener{Protocol: "tcp", Port: port})
			}
		})
		return &now
	}
	answers := func(when, want string, at ...string) {
		t.Helper()
		for _, to := range at {
			if got := d.ask("b", "", "tcp", to); got.server != want {
				t.Errorf("%s: %q answers at %s, want %s (%v)", when, got.server, to, want, got.err)
			}
		}
	}
	host := []string{testHost + ":8080", "[" + testHost6 + "]:8080"}
	answers("a hostPort", "a", host...)
	d.do(listen(8080, 30080))
	answers("a hostPort, and a daemon", "host", host...)
	d.do(s, slices4, slices6)
	answers("a load balancer's address, and a daemon", "host", host...)
	answers("the same Service", "a", "10.96.0.10:8080", "[fd00:10:96::a]:8080", testHost+":30080")
	d.do(listen())
	answers("a load balancer's address", "a", host...)
}

// TestHostAliasWithPackets: a gateway router with its host's addresses comes to endpoints on the host by the
// alias, and the host to itself. A namespace stands for what the external bridge makes of the alias.
func TestHostAliasWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	n1 := *d.objects[objects.Key{Kind: objects.NodeKind, Name: "n1"}].(*objects.Node)
	n1.Facts = ovntest.EditFacts(1, true, func(f *contract.NodeFacts) {
		f.Gateway.HostAddresses = true
		f.Addresses = contract.Addrs(f.Gateway.Addresses)
	})
	d.do(&n1)
	d.pods("a", "b")
	d.host()
	d.outside(nil)
	d.alias()
	d.serve("alias")
	http := []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}
	s := d.service("host", "10.96.0.10", "fd00:10:96::a")
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30080}}
	pods := d.service("pods", "10.96.0.11", "fd00:10:96::b")
	pods.NodePorts = []objects.NodePort{{ServicePort: pods.Ports[0], Number: 30081}}
	d.do(s, pods, d.slice("host-4", "host", http, ready(testGateway, "n1")), d.slice("host-6", "host", http,
		ready(testGateway6, "n1")),
		d.slice("pods-4", "pods", http, ready("10.244.0.3", "n1")), d.slice("pods-6", "pods", http,
			ready("fd00:10:244::3", "n1")))
	all := func(as4, as6, pod4, pod6 string) []visit {
		return []visit{
			{"NodePort of a pod", "outside", testGateway + ":30081", pod4},
			{"NodePort of a pod, IPv6", "outside", "[" + testGateway6 + "]:30081", pod6},
			{"NodePort of the host", "outside", testGateway + ":30080", as4},
			{"NodePort of the host, IPv6", "outside", "[" + testGateway6 + "]:30080", as6},
			{"the host to itself by ClusterIP", "host", "10.96.0.10:80", "10.244.0.2"},
			{"the host to itself by ClusterIP, IPv6", "host", "[fd00:10:96::a]:80", "fd00:10:244::2"},
			{"the host to itself by NodePort", "host", contract.HostVIPs[0].String() + ":30080", "10.244.0.2"},
			// The bridge, which is not here, would give it the host's address.
			{"a pod to the outside", "b", testClient + ":8080", noAnswer},
			{"a pod to the alias", "b", contract.HostAliases[0].String() + ":8080", noAnswer},
		}
	}
	d.visits(all(testGateway, testGateway6, "100.64.0.2", "fd98::2")...)
	near, nearPods := *s, *pods
	near.ExternalLocal, nearPods.ExternalLocal = true, true
	d.do(&near, &nearPods)
	d.visits(all(testClient, testClient6, testClient, testClient6)...)

	// What OVN remembers of a client is the alias, too.
	sticky, stickyPods := *s, *pods
	for _, s := range []*objects.Service{&sticky, &stickyPods} {
		s.ClientIP, s.StickySeconds = true, 100
	}
	d.do(&sticky, &stickyPods)
	for range 2 {
		d.visits(all(testGateway, testGateway6, "100.64.0.2", "fd98::2")...)
	}
}

// alias is a namespace with the host's alias, beside the gateway router with the host's own addresses.
func (d *datapath) alias() {
	d.t.Helper()
	nodetest.Sandbox(d.t, "alias")
	script := []string{"ip link add v-alias type veth peer name eth0 netns alias", "ip -n alias link set lo up",
		"ip -n alias link set eth0 address 0a:58:a9:fe:a9:02 up",
		"ip netns exec alias ethtool -K eth0 tx off >/dev/null", "ip link set v-alias up"}
	for i, router := range []string{testGateway, testGateway6} {
		own := netip.PrefixFrom(contract.HostAliases[i], contract.HostAliases[i].BitLen())
		nodad := []string{"", " nodad"}[i]
		script = append(script, fmt.Sprintf("ip -n alias addr add %v dev eth0%s", own, nodad),
			fmt.Sprintf("ip -n alias route add %s dev eth0", router),
			fmt.Sprintf("ip -n alias route add default via %s dev eth0", router))
	}
	if output, err := exec.Command("sh", "-ec", strings.Join(script, "\n")).CombinedOutput(); err != nil {
		d.t.Fatalf("plug alias: %v\n%s", err, output)
	}
	d.ovn.VS("add-port", "br-ex", "v-alias")
}

// TestSocketsByNodePortLeaveWhoIsGone: datagram sockets that come by NodePorts and external addresses, too.
func TestSocketsByNodePortLeaveWhoIsGone(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a", "b", "client")
	d.outside(nil, "192.0.2.1/32 via "+testGateway, "198.51.100.0/24 via "+testGateway, "2001:db8:1::/64 via "+
		testGateway6)
	s := d.service("log", "10.96.0.10", "fd00:10:96::a")
	s.Ports = []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}}
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30514}}
	s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	for _, c := range []struct {
		namespace, to string
		local         bool
	}{
		{"client", testHost + ":30514", false}, {"client", "[" + testHost6 + "]:30514", false},
		{"outside", testHost + ":30514", false}, {"outside", "[" + testHost6 + "]:30514", false},
		{"outside", "198.51.100.2:514", false},
		{"outside", testHost + ":30514", true}, {"outside", "198.51.100.2:514", true},
	} {
		t.Run(fmt.Sprintf("%s to %s, local %v", c.namespace, c.to, c.local), func(t *testing.T) {
			d.t = t
			changed := *s
			changed.ExternalLocal = c.local
			var conn net.Conn
			var err error
			d.within(c.namespace, func() { conn, err = net.Dial("udp", c.to) })
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, name := range []string{"a", "b"} {
				given := []any{&changed}
				for i, a := range d.c.pods.At("default/" + name).Addresses() {
					given = append(given, d.slice(fmt.Sprint("log-", i), "log",
						[]objects.ServicePort{{Name: "log", Protocol: "udp", Port: 8080}}, ready(a.Addr().String(), "n1")))
				}
				d.do(given...)
				nodetest.Eventually(t, 5*time.Second, func() error {
					if text, _, err := exchange(conn, true, 0); err != nil || !strings.HasPrefix(text, name+" ") {
						return fmt.Errorf("%q answers: %v", text, err)
					}
					return nil
				})
			}
		})
	}
}

// TestChangesLeaveOtherPortsAlone: while a Service's type, policies, addresses, protocol and ports change, and
// change back, no connection to another of its ports fails.
func TestChangesLeaveOtherPortsAlone(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a", "client")
	d.outside(nil, "192.0.2.1/32 via "+testGateway, "198.51.100.0/24 via "+testGateway)
	s := d.service("web", "10.96.0.10")
	s.Ports = []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 80}, {Name: "admin", Protocol: "tcp", Port: 81}}
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[1], Number: 30081}}
	s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	d.do(s, d.slice("web-a", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080},
		{Name: "http", Protocol: "udp", Port: 8080}, {Name: "admin", Protocol: "tcp", Port: 8080}},
		ready("10.244.0.3", "n1")))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var asked [3]atomic.Int32
	for i, v := range []visit{{namespace: "client", to: "10.96.0.10:81"}, {namespace: "client", to: testHost + ":30081"},
		{namespace: "outside", to: testHost + ":30081"}} {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := d.ask(v.namespace, "", "tcp", v.to)
				if got.err != nil {
					t.Errorf("%s asks %s after %d times: %+v", v.namespace, v.to, asked[i].Load(), got)
					return
				}
				asked[i].Add(1)
			}
		})
	}
	for _, change := range []func(*objects.Service){
		func(s *objects.Service) {
			s.NodePorts = append(s.NodePorts, objects.NodePort{ServicePort: s.Ports[0], Number: 30080})
		},
		func(s *objects.Service) { s.NodePorts[1].Number = 30082 },
		func(s *objects.Service) { s.Ports[0].Protocol, s.NodePorts[1].Protocol = "udp", "udp" },
		func(s *objects.Service) { s.Ports[0].Protocol, s.NodePorts[1].Protocol = "tcp", "tcp" },
		func(s *objects.Service) { s.ExternalIPs = nil },
		func(s *objects.Service) { s.Ingress = []netip.Addr{netip.MustParseAddr("198.51.100.3")} },
		func(s *objects.Service) { s.InternalLocal = true },
		func(s *objects.Service) { s.InternalLocal = false },
		func(s *objects.Service) { s.Ports, s.NodePorts, s.Ingress = s.Ports[1:], s.NodePorts[:1], nil },
	} {
		changed := *s
		changed.Ports, changed.NodePorts = slices.Clone(s.Ports), slices.Clone(s.NodePorts)
		change(&changed)
		s = &changed
		d.do(s)
		for i := range asked {
			before := asked[i].Load()
			nodetest.Eventually(t, 5*time.Second, func() error {
				if now := asked[i].Load(); now < before+3 {
					return fmt.Errorf("client %d has asked %d times", i, now)
				}
				return nil
			})
		}
	}
	close(stop)
	clients.Wait()
}
