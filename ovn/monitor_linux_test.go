package ovn

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestMonitorsWithPackets: a node that reads all of the Southbound, or its part alone, loses no packet when it changes
// from one to the other, when its ovn-controller starts anew, or when the Southbound is away. The settings are those
// of the agent: before OVN 25.09, an ovn-controller that reads a part replaces the flows too early if it does not wait.
func TestMonitorsWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.do(d.namespace("default", "kubernetes.io/metadata.name=default"))
	var others []any
	for i := range 20 { // whose flows an ovn-controller that starts has to compute, too
		name := fmt.Sprint("s", i)
		others = append(others, d.service(name, fmt.Sprintf("10.96.1.%d", i+1)), d.slice(name, name, []objects.ServicePort{
			{Name: "http", Protocol: "tcp", Port: 80}}, ready("10.244.0.9", "n1"), ready("10.244.1.9", "n2")))
	}
	d.do(others...)
	d.pods("a", "b")
	d.outside(nil)
	d.serve("outside")
	b, _ := d.addresses("b")
	ways := map[string]string{"to a pod": b + ":8080", "outside": testClient + ":8080"}
	set := func(all, wait string) {
		d.ovn.VS("set", "Open_vSwitch", ".", "external_ids:ovn-monitor-all="+all,
			"external_ids:ovn-ofctrl-wait-before-clear="+wait)
		d.ovn.NB("--timeout=100", "--wait=hv", "sync")
	}
	during := func(what string, do func()) {
		t.Run(what, func(t *testing.T) {
			d.t = t
			var ends []func()
			for way, to := range ways {
				ends = append(ends, d.traffic(way, "a", to))
			}
			do()
			d.ovn.NB("--timeout=100", "--wait=hv", "sync")
			for _, end := range ends {
				end()
			}
		})
		d.t = t
	}
	for _, monitor := range []struct{ all, wait string }{{"true", "0"}, {"false", "10000"}} {
		all := monitor.all
		during("ovn-monitor-all becomes "+all, func() { set(all, monitor.wait) })
		during("ovn-controller starts anew, "+all, func() {
			d.ovn.Run("ovn-appctl", "-t", d.ovn.Control(nodetest.OVNController), "exit", "--restart")
			d.ovn.Restart(nodetest.OVNController)
		})
		during("the Southbound starts anew, "+all, func() { d.ovn.Restart(nodetest.SBServer) })
	}
}

// traffic sends datagrams, one after the other, and has the test fail when it ends if one of them was not answered. It
// begins when the way has had an answer: before, a router may ask for a neighbour, and drop packets meanwhile.
func (d *datapath) traffic(way, from, to string) (end func()) {
	d.t.Helper()
	t := d.t
	dial := func() (conn net.Conn) {
		var err error
		d.within(from, func() { conn, err = net.Dial("udp", to) })
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first := dial()
	nodetest.Eventually(t, nodetest.Patience, func() error {
		first.Write([]byte("who")) // the answer tells of an error, too
		first.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := first.Read(make([]byte, 200)); err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		return nil
	})
	first.Close()

	conn := dial()
	var sent, answered atomic.Int64
	var longest time.Duration
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		buffer, last := make([]byte, 200), time.Now()
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
			longest, last = max(longest, time.Since(last)), time.Now()
			answered.Add(1)
		}
	}()
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-over:
				tick.Stop()
				return
			case <-tick.C:
			}
			if _, err := conn.Write([]byte("who")); err == nil {
				sent.Add(1)
			}
		}
	}()
	return func() {
		t.Helper()
		close(over)
		<-stopped
		for deadline := time.Now().Add(nodetest.Patience); answered.Load() < sent.Load() && time.Now().Before(deadline); {
			<-time.After(10 * time.Millisecond)
		}
		conn.Close()
		<-heard
		if lost := sent.Load() - answered.Load(); lost > 0 {
			t.Errorf("%s: %d of %d datagrams are lost, and once none came for %s", way, lost, sent.Load(), longest)
		}
	}
}
