package ovn

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
)

// settles takes events in, and all that is written for them.
func (w *world) settles(c *cluster, keys []part.Event) {
	for len(keys) > 0 {
		c.update(keys, w.Get)
		c.takeChanges()
		keys = w.absorb(c)
	}
	w.problems = nil
}

// manyBalancers are Services with addresses of one pool, which has as many more as are said.
func manyBalancers(size, more int) *world {
	w := newWorld()
	last := size + more - 1
	w.put(w.namespace("default"), w.addressPool("p", fmt.Sprintf("198.19.240.0-198.19.%d.%d", 240+last/256, last%256)))
	for i := range 10 {
		w.put(w.gatewayNumber(i))
	}
	for i := range size {
		w.put(w.balancerNumber(i))
	}
	return w
}

// balancerNumber is one of many Services that lack an address.
func (w *world) balancerNumber(i int) *objects.Service {
	s := w.service(fmt.Sprint("s", i), fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250))
	s.Balancer = objects.LoadBalancer{Wanted: true, Families: "4"}
	return s
}

// BenchmarkBalancerComesAndGoes is a Service that gets an address beside many that have one of the same pool, and gives
// it up, in turn. Its status and the pool's are written, and come back.
func BenchmarkBalancerComesAndGoes(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := manyBalancers(size, 10)
		c := playing(b, w)
		k := objects.Key{Kind: objects.ServiceKind, Name: fmt.Sprint("default/s", size)}
		return func(i int) {
			if i%2 == 0 {
				w.put(w.balancerNumber(size))
			} else {
				delete(w.objects, k)
			}
			w.settles(c, []part.Event{k})
		}
	})
}

// BenchmarkAddressIsFreed is a Service that gives up its address, which one of many that wait gets, and then waits.
func BenchmarkAddressIsFreed(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := manyBalancers(10, 0)
		for i := range size {
			w.put(w.balancerNumber(10 + i))
		}
		c := playing(b, w)
		return func(i int) {
			holder, _ := c.pools.Holder(netip.AddrFrom4([4]byte{198, 19, 240, byte(i % 10)}))
			k := objects.Key{Kind: objects.ServiceKind, Name: holder}
			again := *w.objects[k].(*objects.Service)
			delete(w.objects, k)
			w.settles(c, []part.Event{k})
			again.ObjectMeta, again.Balancer.Ingress, again.Ingress = w.meta("default", again.Name), "", nil
			w.settles(c, w.put(&again))
		}
	})
}

// BenchmarkEgressPodsCounted is a pod that comes to leave by an EgressIP, or goes, among many nodes: the EgressIP's
// status says so after a while, and comes back.
func BenchmarkEgressPodsCounted(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := manyNodes(size)
		c := playing(b, w)
		w.settles(c, c.TakeExpected())
		k := objects.Key{Kind: objects.PodKind, Name: "default/p"}
		return func(i int) {
			if i%2 == 0 {
				w.put(w.pod("default", "p", "n0"))
			} else {
				delete(w.objects, k)
			}
			w.settles(c, []part.Event{k})
			w.settles(c, c.TakeExpected())
		}
	})
}

// BenchmarkRivals is a change of the last of many Services that want one address, and a hundred ports of it.
func BenchmarkRivals(b *testing.B) {
	costs(b, func(size int) func(int) {
		w := newWorld()
		n := w.node("n1")
		n.Facts = ovntest.Facts(1, false)
		w.put(w.namespace("default"), n)
		for i := range size {
			s := w.service(fmt.Sprintf("s%04d", i), fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250))
			s.Ports, s.ExternalIPs = nil, objects.ParseAddrs("198.51.100.1")
			for p := range 100 {
				s.Ports = append(s.Ports, objects.ServicePort{Name: fmt.Sprint("p", p), Protocol: "tcp", Port: uint16(1024 + p)})
			}
			w.put(s)
		}
		c := playing(b, w)
		k := objects.Key{Kind: objects.ServiceKind, Name: fmt.Sprintf("default/s%04d", size-1)}
		return func(i int) {
			after := *w.objects[k].(*objects.Service)
			after.PublishNotReady = i%2 == 0
			c.update(w.put(&after), w.Get)
			c.takeChanges()
		}
	})
}
