package services

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/proxy"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/ovsdb"
)

var (
	seed  = flag.Uint64("seed", 0, "what the cases follow from; 0: another one each time")
	first = flag.Uint64("first", 0, "the number of the first case")
	cases = flag.Uint64("cases", 2000, "how many cases there are")
)

// steps are those of a case; each is some events.
const steps = 25

// maxSticky is the longest, in seconds, that OVN keeps a client at its endpoint.
const maxSticky = 65535

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	os.Exit(m.Run())
}

// TestServicesAsKubeProxy plays lives of clusters, and then asks for every client and every address of a Service what
// the rows do with it and what kube-proxy would. The rows of a controller that starts at the end are the same.
func TestServicesAsKubeProxy(t *testing.T) {
	t.Logf("-seed %d -first %d -cases %d", *seed, *first, *cases)
	var next, asked, served, failed atomic.Uint64
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for failed.Load() < 3 {
				number := next.Add(1) - 1
				if number >= *cases {
					return
				}
				number += *first
				l, found := play(number, steps, &asked, &served)
				if len(found) == 0 {
					continue
				}
				failed.Add(1)
				for length := range steps { // the shortest life that shows it
					if shorter, less := play(number, length, nil, nil); len(less) > 0 {
						l, found = shorter, less
						break
					}
				}
				t.Errorf("-seed %d -first %d -cases 1:\n%s\n\n%s", *seed, number, strings.Join(found[:min(len(found), 5)], "\n"),
					strings.Join(l.story, "\n"))
			}
		})
	}
	workers.Wait()
	t.Logf("%d pairs of client and address, %d of them served", asked.Load(), served.Load())
	if share := float64(served.Load()) / float64(asked.Load()); !t.Failed() && *cases > 100 &&
		(share < 0.3 || share > 0.95) {
		t.Errorf("%.0f%% of the clients are served: the cases tell too little", share*100)
	}
}

// play gives a life of some length, and what is wrong at its end.
func play(number uint64, length int, asked, served *atomic.Uint64) (*life, []string) {
	l, err := newLife(*seed, number)
	for i := 0; i < length && err == nil; i++ {
		err = l.step()
	}
	if err != nil {
		return l, []string{err.Error()}
	}
	rows, fresh := l.weft.Rows(), l.weft.Restarted()
	c := &court{life: l, rows: read(rows), asked: asked, served: served}
	c.judge()
	return l, append(c.found, differences(rows, fresh)...)
}

// court compares the rows with the nodes' kube-proxies.
type court struct {
	*life
	rows          *northbound
	asked, served *atomic.Uint64
	found         []string
}

// client is who asks, and where.
type client struct {
	node     *corev1.Node
	number   int
	facts    contract.NodeFacts
	outside  bool // by the node's gateway router; otherwise on its switch
	external bool // not at a ClusterIP
}

func (c client) String() string {
	if c.outside {
		return "a client outside who comes to " + c.node.Name
	}
	return "a pod on " + c.node.Name
}

func (c client) place() string {
	if c.outside {
		return "gw-" + c.node.Name
	}
	return c.node.Name
}

func (c *court) judge() {
	for _, node := range list[*corev1.Node](c.life) {
		who := client{node: node}
		_, _ = fmt.Sscanf(node.Name, "n%d", &who.number)
		who.facts, _, _ = contract.Parse[contract.NodeFacts](node.Annotations, contract.NodeFactsAnnotation)
		for _, p := range c.proxies[node.Name] {
			names := slices.SortedFunc(maps.Keys(p.ports), func(a, b proxy.ServicePortName) int {
				return strings.Compare(a.String(), b.String())
			})
			for _, name := range names {
				c.service(who, p, name)
			}
		}
		c.hostPorts(who)
	}
}

// service asks for all addresses of a Service's port.
func (c *court) service(who client, p *kubeProxy, name proxy.ServicePortName) {
	info, protocol := p.ports[name], strings.ToLower(string(name.Protocol))
	ask := func(who client, addr netip.Addr, port int) {
		c.ask(who, p, name, protocol, netip.AddrPortFrom(addr, uint16(port)))
	}
	clusterIP, _ := netip.AddrFromSlice(info.ClusterIP())
	ask(who, clusterIP.Unmap(), info.Port())
	who.external = true
	outside := who
	outside.outside = true
	hasGateway := who.facts.Gateway != nil
	for _, ip := range slices.Concat(info.ExternalIPs(), info.LoadBalancerVIPs()) {
		addr, _ := netip.AddrFromSlice(ip)
		if addr = addr.Unmap(); c.holder(protocol, addr, info.Port()) != name.Name || addr.String() == "198.51.100.7" {
			continue
		}
		ask(who, addr, info.Port())
		if hasGateway {
			ask(outside, addr, info.Port())
		}
	}
	if info.NodePort() == 0 {
		return
	}
	for _, node := range list[*corev1.Node](c.life) {
		for _, addr := range nodeAddresses(node) {
			switch {
			case addr.Is4() != (p.family == corev1.IPv4Protocol):
			case node.Name == who.node.Name:
				ask(who, addr, info.NodePort())
				if hasGateway {
					ask(outside, addr, info.NodePort())
				}
			case c.holder(protocol, addr, info.NodePort()) == "":
				if _, found, _ := c.rows.pick(who.place(), chassis(who.number), false, protocol,
					netip.AddrPortFrom(addr, uint16(info.NodePort()))); found {
					c.complain(who, "%s is Node %s's, and load-balanced on another node's switch",
						netip.AddrPortFrom(addr, uint16(info.NodePort())), node.Name)
				}
			}
		}
	}
	for _, vip := range contract.HostVIPs {
		if vip.Is4() == (p.family == corev1.IPv4Protocol) {
			ask(who, vip, info.NodePort())
		}
	}
}

func (c *court) complain(who client, format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf("%s: ", who)+fmt.Sprintf(format, args...))
}

// ask compares what becomes of a client.
func (c *court) ask(who client, p *kubeProxy, name proxy.ServicePortName, protocol string, vip netip.AddrPort) {
	want := p.pick(name, who.node.Labels[corev1.LabelTopologyZone], who.external, who.outside)
	if !who.outside {
		want.dropped = false // Weft refuses
	}
	if want.sticky = min(want.sticky, maxSticky); len(want.endpoints) == 0 {
		want.sticky = 0
	}
	got, found, err := c.rows.pick(who.place(), chassis(who.number), who.outside, protocol, vip)
	if len(got.endpoints) == 0 {
		got.sticky = 0
	}
	if who.outside && who.facts.Gateway.HostAddresses {
		got.endpoints = unaliased(got.endpoints, contract.Addrs(who.facts.Gateway.Addresses))
	}
	if c.random.IntN(4) == 0 { // it takes longer than the rest
		c.explained(who, name, protocol, vip, got)
	}
	if c.asked != nil {
		if c.asked.Add(1); len(want.endpoints) > 0 {
			c.served.Add(1)
		}
	}
	switch {
	case err != nil:
		c.complain(who, "%v", err)
	case !found:
		c.complain(who, "nothing balances %s %s of %s", protocol, vip, name)
	case !slices.Equal(got.endpoints, want.endpoints) || got.dropped != want.dropped || got.sticky != want.sticky:
		c.complain(who, "%s %s of %s: rows %+v, kube-proxy %+v", protocol, vip, name, got, want)
	}
}

// explained compares what policy explain takes for what is behind an address with the rows.
func (c *court) explained(who client, name proxy.ServicePortName, protocol string, vip netip.AddrPort, rows picked) {
	b, ok := c.weft.Behind(protocol, vip, services.Door{Node: who.node.Name, Outside: who.outside})
	var endpoints []string
	for _, at := range b.Endpoints {
		endpoints = append(endpoints, at.String())
	}
	slices.Sort(endpoints)
	if !ok || b.Service != name.NamespacedName.String() || b.Port != name.Port || b.Silent != rows.dropped ||
		!slices.Equal(endpoints, rows.endpoints) {
		c.complain(who, "%s %s of %s: rows %+v, and %t %+v to be explained", protocol, vip, name, rows, ok, b)
	}
}

// nodeAddresses are those that a node's NodePorts have.
func nodeAddresses(node *corev1.Node) []netip.Addr {
	facts, _, _ := contract.Parse[contract.NodeFacts](node.Annotations, contract.NodeFactsAnnotation)
	list := facts.Addresses
	if facts.Gateway != nil {
		list = slices.Concat(list, contract.Addrs(facts.Gateway.Addresses))
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// holder is the Service that has an address outside, as documented: kube-proxy has no rule. "" is none, also where
// the address is a node's and the port a NodePort.
func (c *court) holder(protocol string, addr netip.Addr, port int) string {
	own := slices.ContainsFunc(list[*corev1.Node](c.life), func(n *corev1.Node) bool {
		return slices.Contains(nodeAddresses(n), addr)
	})
	var best *corev1.Service
	given := func(s *corev1.Service) bool {
		return slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
			return i.IP == addr.String() && *i.IPMode == corev1.LoadBalancerIPModeVIP
		})
	}
	for _, s := range list[*corev1.Service](c.life) {
		if len(s.Labels) > 0 || !slices.ContainsFunc(s.Spec.ClusterIPs, func(ip string) bool {
			return ip != corev1.ClusterIPNone && strings.Contains(ip, ":") == addr.Is6()
		}) {
			continue
		}
		for _, p := range s.Spec.Ports {
			if strings.ToLower(string(p.Protocol)) != protocol {
				continue
			}
			if own && int(p.NodePort) == port {
				return ""
			}
			if int(p.Port) != port || !given(s) && !slices.Contains(s.Spec.ExternalIPs, addr.String()) {
				continue
			}
			older := best != nil && (s.CreationTimestamp.Before(&best.CreationTimestamp) ||
				s.CreationTimestamp.Equal(&best.CreationTimestamp) && s.Name < best.Name)
			if best == nil || given(s) && !given(best) || given(s) == given(best) && older {
				best = s
			}
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

// hostPorts asks for the ports of a node's pods: the oldest has one that no Service has.
func (c *court) hostPorts(who client) {
	for _, addr := range nodeAddresses(who.node) {
		for _, port := range []int32{8443, 8444, 30000} {
			var oldest *corev1.Pod
			for _, p := range list[*corev1.Pod](c.life) {
				has := p.Spec.Containers[0].Ports[0]
				if p.Spec.NodeName == who.node.Name && has.HostPort == port && (has.HostIP == "" || has.HostIP == addr.String()) &&
					(oldest == nil || p.CreationTimestamp.Before(&oldest.CreationTimestamp)) {
					oldest = p
				}
			}
			at := netip.AddrPortFrom(addr, uint16(port))
			for _, row := range c.rows.at(who.place(), chassis(who.number))["tcp "+at.String()] {
				owner := string(c.rows.owners[row])
				if strings.HasPrefix(owner, "Pod/") && (oldest == nil || owner != "Pod/default/"+oldest.Name) {
					c.complain(who, "%s is load-balanced by %s", at, row.Name)
				}
				oldest = nil // it has the port, or a Service
			}
			if oldest != nil {
				c.complain(who, "nothing balances the hostPort %s of %s", at, oldest.Name)
			}
		}
	}
}

// differences are those of the rows that events have made and those of a controller that starts now. Pods' addresses
// may be others there.
func differences(rows, fresh []ovsdb.Change) []string {
	was, now := texts(rows), texts(fresh)
	var found []string
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if now[key] != was[key] {
			found = append(found, fmt.Sprintf("after a restart %s is\n  %s\nand was\n  %s", key, now[key], was[key]))
		}
		delete(now, key)
	}
	for key := range now {
		found = append(found, "only after a restart there is "+key+": "+now[key])
	}
	return found
}

// texts are the rows of Services, and of pods the load balancers, as texts by owner and key.
func texts(changes []ovsdb.Change) map[string]string {
	all := map[string]string{}
	for _, change := range changes {
		isService := strings.HasPrefix(string(change.Owner), "Service/")
		if !isService && !strings.HasPrefix(string(change.Owner), "Pod/") {
			continue
		}
		for _, r := range change.Rows {
			switch row := r.Model.(type) {
			case *nb.LoadBalancer:
				text, _ := json.Marshal([]any{row.Name, row.Options, row.Vips})
				if !isService {
					text, _ = json.Marshal(slices.Sorted(maps.Keys(row.Vips)))
				}
				all[string(change.Owner)+" "+r.Key] = string(text)
			default:
				if isService {
					all[string(change.Owner)+" "+r.Key] = fmt.Sprintf("%+v", reflect.Indirect(reflect.ValueOf(row)))
				}
			}
		}
		for _, m := range change.Memberships {
			if values := slices.Sorted(slices.Values(m.Values)); isService {
				all[fmt.Sprint(change.Owner, " in ", m.Table, " ", m.UUID, " ", m.Column)] = strings.Join(values, " ")
			}
		}
	}
	return all
}

// describe is an object as a line.
func describe(o runtime.Object) string {
	var text any
	switch o := o.(type) {
	case *corev1.Service:
		text = []any{o.CreationTimestamp.Unix(), o.Labels, o.Spec, o.Status.LoadBalancer.Ingress}
	case *discoveryv1.EndpointSlice:
		text = []any{o.Ports, o.Endpoints}
	case *corev1.Node:
		text = []any{o.Labels, o.Annotations}
	case *corev1.Pod:
		text = []any{o.CreationTimestamp.Unix(), o.Spec.NodeName, o.Spec.Containers[0].Ports}
	}
	content, _ := json.Marshal(text)
	return keyOf(o) + " " + string(content)
}
