package hostservice

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/hostservice/listeners"
)

// A daemon has its ports while the agent looks. Then the node boots, and the agent is first: neither a hostPort, nor a
// load balancer's address, nor a NodePort, nor a health check has the host listen there, and the daemon comes up. When
// it has been gone for long, its ports are free.
func TestDaemonThatStartsAfterTheAgentHasItsPorts(t *testing.T) {
	own := netip.MustParseAddr("172.31.0.1")
	hosttest.Address(t, "172.31.0.1/32")
	host := dual()
	host.Addresses = []netip.Addr{own}
	file := filepath.Join(t.TempDir(), "data", "daemons.json")
	remembers := func(period time.Duration) func(*Watcher) {
		return func(w *Watcher) { w.daemons = listeners.NewDaemons(file, period) }
	}
	const hostPort, balanced, checked = 22224, 22225, 22226
	daemons := []string{
		fmt.Sprintf("tcp :%d", hostPort), fmt.Sprintf("tcp4 172.31.0.1:%d", balanced),
		fmt.Sprintf("tcp4 0.0.0.0:%d", testPort), fmt.Sprintf("udp4 172.31.0.1:%d", testPort),
		fmt.Sprintf("tcp :%d", checked),
	}
	start := func() (stop func()) {
		t.Helper()
		var all []func()
		for _, at := range daemons {
			stop, err := hosttest.StartDaemon(t, at)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, stop)
		}
		return func() {
			for _, stop := range all {
				stop()
			}
		}
	}

	end := start()
	_, stop := watchAs(t, host, remembers(10*time.Millisecond))
	hosttest.Eventually(t, "the agent remembers", func() bool {
		content, err := os.ReadFile(file)
		return err == nil && strings.Count(string(content), fmt.Sprint(":", hostPort)) == 2 && // of both families
			strings.Count(string(content), fmt.Sprint(":", testPort)) == 2 && strings.Contains(string(content),
			"tcp 172.31.0.1:22225")
	})
	stop()
	end() // the node boots

	// It forgets after 15 s, by which time the daemons have started on a busy machine, too.
	w, _ := watchAs(t, host, remembers(250*time.Millisecond))
	service := everyFamily("10.96.0.20", "fd96::20")
	service.Spec.Type, service.Spec.ExternalTrafficPolicy,
		service.Spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal, checked
	service.Spec.Ports[0].Port = balanced
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: own.String()}}
	w.apply(service)
	w.SetPods([]Pod{podAt(hosttest.Greeter(t, "a"), hostPort)})
	for _, want := range []string{
		"Pod shop/cache HostPortUnavailable: Node n1: hostPort: on this node tcp port 22224 is not served at the host's " +
			"addresses [127.0.0.1 172.31.0.1]: another program there has the port, or had it",
		"Service shop/web HostPortUnavailable: Node n1: status.loadBalancer.ingress: on this node tcp port 22225",
		fmt.Sprintf("Service shop/web HostPortUnavailable: Node n1: spec.ports[port=%d].nodePort: on this node tcp port "+
			"30080 is not served at the host's addresses [127.0.0.1 172.31.0.1]", balanced),
		"Service shop/web HostPortUnavailable: Node n1: spec.ports[port=53].nodePort: on this node udp port 30080 is not " +
			"served at the host's addresses [172.31.0.1]",
		"Service shop/web HealthCheckPortUnavailable: Node n1: spec.healthCheckNodePort: 22226",
	} {
		hosttest.Eventually(t, "an Event says "+want, func() bool {
			return strings.Contains(strings.Join(w.events.all(), "\n"), want)
		})
	}
	if entries, _ := w.Entries(); strings.Contains(fmt.Sprint(entries), "22224") || strings.Contains(fmt.Sprint(entries),
		"172.31.0.1 tcp 22225") {
		t.Errorf("what comes from outside for a daemon is another's: %v", entries)
	}
	end = start() // late, and no port is taken
	end()
	// It has been there in this run, so that only a boot would have the agent wait for it.
	hosttest.Eventually(t, "the pod has a port that is nobody's any more", func() bool {
		entries, _ := w.Entries()
		return said(tcp, netip.AddrPortFrom(own, hostPort)) == "a" && strings.Contains(fmt.Sprint(entries), "22224")
	})
	hosttest.Eventually(t, "the file has forgotten it", func() bool {
		content, err := os.ReadFile(file)
		return err == nil && !strings.Contains(string(content), ":22224")
	})
}

// The cluster is told of a daemon that the host has, and of one that has gone until it is forgotten. What the agent has
// opened is no daemon's.
func TestTheClusterIsToldOfTheHostsDaemons(t *testing.T) {
	own := netip.MustParseAddr("172.31.0.1")
	hosttest.Address(t, "172.31.0.1/32")
	host := dual()
	host.Addresses = []netip.Addr{own}
	end, err := hosttest.StartDaemon(t, "tcp4 172.31.0.1:22227")
	if err != nil {
		t.Fatal(err)
	}
	w, _ := watchAs(t, host, func(w *Watcher) {
		w.daemons = listeners.NewDaemons("", 100*time.Millisecond)
	})
	told := func(what string) bool {
		list, known := w.Listeners()
		return known && strings.Contains(fmt.Sprint(list), what)
	}
	changed := w.Changed()
	hosttest.Eventually(t, "the cluster is told", func() bool { return told("tcp/172.31.0.1:22227") })
	<-changed
	w.SetPods([]Pod{podAt(hosttest.Greeter(t, "a"), 22228)})
	hosttest.Eventually(t, "a pod has a port of the host's", func() bool {
		return said(tcp, netip.AddrPortFrom(own, 22228)) == "a"
	})
	if end(); !told("tcp/172.31.0.1:22227") {
		t.Error("a daemon that starts anew is forgotten at once")
	}
	hosttest.Eventually(t, "it is forgotten", func() bool { return !told("22227") })
	if told("22228") {
		t.Error("the agent takes itself for a daemon")
	}
}
