package ovn

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
)

// costs plays an event again and again in a small cluster and in a large one, and tells how much more it costs there.
func costs(b *testing.B, of func(size int) (event func(i int))) {
	const small, large, rounds = 10, 1000, 2000
	spent := map[int]time.Duration{}
	events := map[int]func(int){small: of(small), large: of(large)}
	for b.Loop() {
		for i := range rounds { // in turn, so that both have the same machine
			for size, event := range events {
				start := time.Now()
				event(i)
				spent[size] += time.Since(start)
			}
		}
	}
	count := float64(b.N * rounds)
	b.ReportMetric(float64(spent[small].Nanoseconds())/count, fmt.Sprintf("ns/event-of-%d", small))
	b.ReportMetric(float64(spent[large].Nanoseconds())/count, fmt.Sprintf("ns/event-of-%d", large))
	b.ReportMetric(float64(spent[large])/float64(spent[small]), "ratio")
	b.ReportMetric(0, "ns/op")
}

// playing is a cluster that takes an event in and writes nothing.
func playing(b *testing.B, w *world) *cluster {
	c := newCluster(ovntest.Settings(b, func(c *settings.Config) {
		withBalancers(c)
		c.AllocateNodeCIDRs, c.NodeCIDRMaskIPv4 = true, 28
	}))
	c.begin(records.Records{}, w.Keys(), w.Get)
	c.takeEverything()
	for keys := w.absorb(c); len(keys) > 0; keys = w.absorb(c) {
		c.update(keys, w.Get)
		c.takeChanges()
	}
	return c
}

// BenchmarkBalancerEvent is a change of one Service of type LoadBalancer among many, whose addresses one pool gave.
func BenchmarkBalancerEvent(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := newWorld()
		w.put(w.namespace("default"), w.addressPool("p", "203.0.112.0/20"))
		for i := range 10 {
			n := w.node(fmt.Sprint("n", i))
			n.Facts, n.Ready = ovntest.Facts(1+i, false), true
			w.put(n)
		}
		for i := range size {
			s := w.service(fmt.Sprint("s", i), fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250))
			s.Balancer = objects.LoadBalancer{Wanted: true, Families: "4"}
			w.put(s)
		}
		c := playing(b, w)
		k := objects.Key{Kind: objects.ServiceKind, Name: "default/s0"}
		return func(i int) {
			after := *w.objects[k].(*objects.Service)
			after.ExternalLocal = i%2 == 0
			c.update(w.put(&after), w.Get)
			c.takeChanges()
		}
	})
}

// BenchmarkPodWithHostPorts is a change of a pod with a host port among many on its node that have others.
func BenchmarkPodWithHostPorts(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := newWorld()
		n := w.node("n1", "10.244.0.0/16")
		n.Facts = ovntest.Facts(1, false)
		w.put(w.namespace("default"), n)
		for i := range size {
			p := w.pod("default", fmt.Sprint("p", i), "n1")
			p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: uint16(1024 + i), Into: 80}}
			w.put(p)
		}
		c := playing(b, w)
		k := objects.Key{Kind: objects.PodKind, Name: "default/p0"}
		return func(i int) {
			after := *w.objects[k].(*objects.Pod)
			after.Labels = objects.NewLabelSet(map[string]string{"round": fmt.Sprint(i)})
			c.update(w.put(&after), w.Get)
			c.takeChanges()
		}
	})
}

// BenchmarkPodAmongRivals is a change of a pod with a host port among ten older ones that have it at another address,
// and many other ports there.
func BenchmarkPodAmongRivals(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := newWorld()
		n := w.node("n1", "10.244.0.0/16")
		n.Facts = ovntest.Facts(1, false)
		last := w.pod("default", "z", "n1")
		last.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 1024, Into: 80}}
		w.put(w.namespace("default"), n, last)
		for i := range 10 {
			p := w.pod("default", fmt.Sprint("p", i), "n1")
			for j := range size {
				p.HostPorts = append(p.HostPorts, objects.HostPort{Protocol: "tcp", IP: netip.MustParseAddr("127.0.0.1"),
					Port: uint16(1024 + j), Into: 80})
			}
			w.put(p)
		}
		c := playing(b, w)
		return func(int) { c.changeOf(northbound.PodOwner("default/z")) }
	})
}

// BenchmarkServiceOfManyPorts is a change of a Service with thousands of endpoints and with so many ports, which all
// lead to them. The ratio is that of a port's cost.
func BenchmarkServiceOfManyPorts(b *testing.B) {
	const few, many = 10, 1000
	cost := map[int]time.Duration{}
	for b.Loop() {
		for _, ports := range []int{few, many} {
			w := newWorld()
			object, from := costly(ports, 5000)
			object.Spec.LoadBalancerSourceRanges = nil
			n1 := w.node("n1", "10.244.0.0/16")
			n1.Facts = ovntest.Facts(1, true)
			w.put(w.namespace("shop"), n1, objects.TrimService(object))
			for _, s := range from {
				w.put(objects.TrimSlice(s))
			}
			c := playing(b, w)
			start := time.Now()
			c.update([]part.Event{objects.Key{Kind: objects.ServiceKind, Name: "shop/big"}}, w.Get)
			c.takeChanges()
			cost[ports] += time.Since(start)
		}
	}
	count := float64(b.N)
	b.ReportMetric(cost[few].Seconds()*1000/few/count, fmt.Sprintf("ms/port-of-%d", few))
	b.ReportMetric(cost[many].Seconds()*1000/many/count, fmt.Sprintf("ms/port-of-%d", many))
	b.ReportMetric(cost[many].Seconds()/cost[few].Seconds()*few/many, "ratio")
	b.ReportMetric(0, "ns/op")
}

// gatewayNumber is one of many nodes whose gateways are on one network outside.
func (w *world) gatewayNumber(i int) *objects.Node {
	n := w.node(fmt.Sprint("n", i))
	f := ovntest.ReadFacts(ovntest.Facts(1, false))
	f.Chassis, f.Gateway.MAC = fmt.Sprint("chassis-", i), fmt.Sprintf("02:00:00:00:%02x:%02x", i/256, i%256)
	f.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{198, 18, byte(i / 256), byte(i % 256)})}
	f.Gateway.Addresses = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, byte(i / 256), byte(i % 256)}),
		16)}
	f.Gateway.NextHops = nil
	n.Facts, n.Ready = contract.Format(f), true
	return n
}

// manyNodes are a cluster's, with some Services that have addresses of a pool and some EgressIPs.
func manyNodes(size int) *world {
	w := newWorld()
	w.put(w.namespace("default", "team=a"), w.addressPool("p", "198.19.240.0/20"),
		w.serviceCIDR("kubernetes", "10.96.0.0/16"))
	for i := range size {
		n := w.gatewayNumber(i)
		if i < 10 {
			n.Labels = objects.NewLabelSet(map[string]string{v1alpha1.EgressLabel: ""})
		}
		w.put(n)
	}
	for i := range 10 {
		w.put(w.egressIP(fmt.Sprint("e", i), "team=a", fmt.Sprint("198.19.200.", i+1)))
		s := w.service(fmt.Sprint("s", i), fmt.Sprint("10.96.0.", 10+i))
		s.Balancer = objects.LoadBalancer{Wanted: true, Families: "4"}
		w.put(s,
			w.slice(fmt.Sprint("s", i, "-a"), fmt.Sprint("s", i),
				[]objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}, ready("10.244.0.9", "n1"),
				ready("10.244.0.10", "n2")))
	}
	return w
}

// BenchmarkBalancerEventOfNodes is a change of one Service of type LoadBalancer among many nodes, any of which may
// announce its address.
func BenchmarkBalancerEventOfNodes(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := manyNodes(size)
		c := playing(b, w)
		k := objects.Key{Kind: objects.ServiceKind, Name: "default/s0"}
		return func(i int) {
			after := *w.objects[k].(*objects.Service)
			after.Balancer.Local = i%2 == 0
			c.update(w.put(&after), w.Get)
			c.takeChanges()
		}
	})
}

// BenchmarkNodePortEdit is a change of one Service of 100 NodePorts among many nodes that leaves its ports as they are.
func BenchmarkNodePortEdit(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := manyNodes(size)
		s := w.service("doors", "10.96.77.1")
		for i := range 100 {
			p := objects.ServicePort{Name: fmt.Sprint("p", i), Protocol: "tcp", Port: uint16(80 + i)}
			s.Ports = append(s.Ports, p)
			s.NodePorts = append(s.NodePorts, objects.NodePort{ServicePort: p, Number: uint16(31000 + i)})
		}
		w.put(s)
		c := playing(b, w)
		k := objects.Key{Kind: objects.ServiceKind, Name: "default/doors"}
		return func(i int) {
			after := *w.objects[k].(*objects.Service)
			after.PublishNotReady = i%2 == 0
			c.update(w.put(&after), w.Get)
			c.takeChanges()
		}
	})
}

// BenchmarkTraitEvent is a change of one node's traits among many nodes, on which ten Services' addresses and ten
// EgressIPs may depend.
func BenchmarkTraitEvent(b *testing.B) {
	for _, one := range []struct{ name, node string }{{"carries egress addresses", "n0"}, {"other", "n9"}} {
		b.Run(one.name, func(b *testing.B) {
			costs(b, func(size int) func(int) {
				w := manyNodes(size)
				if one.name == "other" {
					other := *w.objects[objects.Key{Kind: objects.NodeKind, Name: one.node}].(*objects.Node)
					other.Labels = objects.LabelSet{}
					w.put(&other)
				}
				c := playing(b, w)
				k := objects.Key{Kind: objects.NodeKind, Name: one.node}
				return func(i int) {
					after := *w.objects[k].(*objects.Node)
					after.Ready = i%2 == 0
					c.update(w.put(&after), w.Get)
					c.takeChanges()
				}
			})
		})
	}
}

// onlyNodes are a cluster's in which there is nothing else, except for the range of its ClusterIPs.
func onlyNodes(size int) *world {
	w := newWorld()
	w.put(w.serviceCIDR("kubernetes", "10.96.0.0/16"))
	for i := range size {
		w.put(w.gatewayNumber(i))
	}
	return w
}

// BenchmarkNodeComesAndGoes is a node that joins many others, and one that leaves them, in turn.
func BenchmarkNodeComesAndGoes(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := onlyNodes(size)
		c := playing(b, w)
		k := objects.Key{Kind: objects.NodeKind, Name: fmt.Sprint("n", size)}
		return func(i int) {
			keys := []part.Event{k}
			if i%2 == 0 {
				keys = w.put(w.gatewayNumber(size))
			} else {
				delete(w.objects, k)
			}
			c.update(keys, w.Get)
			c.takeChanges()
		}
	})
}

// BenchmarkNodeEvent is a change of one node among many, which changes nothing of how the cluster is entered, as most.
func BenchmarkNodeEvent(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := onlyNodes(size)
		c := playing(b, w)
		k := objects.Key{Kind: objects.NodeKind, Name: "n0"}
		return func(i int) {
			after := *w.objects[k].(*objects.Node)
			after.Ready = i%2 == 0
			c.update(w.put(&after), w.Get)
			c.takeChanges()
		}
	})
}

// BenchmarkNodeEventBesideRefused is a change of one node beside many that are copies of another one.
func BenchmarkNodeEventBesideRefused(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := onlyNodes(2)
		for i := range size {
			n := w.gatewayNumber(2 + i)
			n.Facts = w.objects[objects.Key{Kind: objects.NodeKind, Name: "n1"}].(*objects.Node).Facts
			w.put(n)
		}
		c := playing(b, w)
		k := objects.Key{Kind: objects.NodeKind, Name: "n0"}
		return func(i int) {
			after := *w.objects[k].(*objects.Node)
			after.Ready = i%2 == 0
			c.update(w.put(&after), w.Get)
			c.takeChanges()
		}
	})
}

// BenchmarkNodeLabels is a change of a node's labels among many nodes, with pools and EgressIPs: of one that nobody
// selects by, and of the one by which EgressIPs do.
func BenchmarkNodeLabels(b *testing.B) {
	for _, label := range []string{"feature.node.kubernetes.io/cpu-model.id", v1alpha1.EgressLabel} {
		b.Run(label, func(b *testing.B) {
			costs(b, func(size int) func(int) {
				w := manyNodes(size)
				c := playing(b, w)
				k := objects.Key{Kind: objects.NodeKind, Name: "n9"}
				return func(i int) {
					after := *w.objects[k].(*objects.Node)
					after.Labels = objects.NewLabelSet(map[string]string{label: []string{"true", "false"}[i%2]})
					c.update(w.put(&after), w.Get)
					c.takeChanges()
				}
			})
		})
	}
}

// BenchmarkNodeJoinsPools is a node that joins many others, with pools and EgressIPs, and leaves them, in turn.
func BenchmarkNodeJoinsPools(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := manyNodes(size)
		c := playing(b, w)
		k := objects.Key{Kind: objects.NodeKind, Name: fmt.Sprint("n", size)}
		return func(i int) {
			if i%2 == 0 {
				w.put(w.gatewayNumber(size))
			} else {
				delete(w.objects, k)
			}
			c.update([]part.Event{k}, w.Get)
			c.takeChanges()
		}
	})
}
