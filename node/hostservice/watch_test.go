package hostservice

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/freeport"
)

// told are the Events that a watcher has written.
type told struct {
	mu   sync.Mutex
	list []string
}

func (t *told) tell(object *corev1.ObjectReference, reason *reasons.Event, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, fmt.Sprintf("%s %s/%s %s: %s", object.Kind, object.Namespace, object.Name, reason, message))
}

func (t *told) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

// watched is a Watcher that runs.
type watched struct {
	*Watcher
	tb     testing.TB
	client kubernetes.Interface
	events *told
	sound  func(bool)
}

func watch(tb testing.TB, host Host) *watched {
	tb.Helper()
	w, _ := watchAs(tb, host, func(*Watcher) {})
	return w
}

// watchAs lets a test change the Watcher before it runs, and stop it.
func watchAs(tb testing.TB, host Host, change func(*Watcher)) (w *watched, stop func()) {
	tb.Helper()
	events, client := &told{}, nodetest.FakeAPI()
	var mu sync.Mutex
	sound := true
	watcher, err := New(Config{Client: client, Node: "n1", Report: events.tell, Sound: func() bool {
		mu.Lock()
		defer mu.Unlock()
		return sound
	}})
	if err != nil {
		tb.Fatal(err)
	}
	change(watcher)
	watcher.SetHost(host)
	watcher.SetPods(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(stop)
	hosttest.Eventually(tb, "the plan is made", func() bool { _, known := watcher.Entries(); return known })
	return &watched{watcher, tb, client, events, func(is bool) { mu.Lock(); defer mu.Unlock(); sound = is }}, stop
}

func (w *watched) apply(s *corev1.Service) *corev1.Service {
	w.tb.Helper()
	api := w.client.CoreV1().Services(s.Namespace)
	made, err := api.Update(w.tb.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		made, err = api.Create(w.tb.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		w.tb.Fatal(err)
	}
	return made
}

func (w *watched) slice(name string, addresses discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) {
	w.tb.Helper()
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: addresses, Ports: webPorts(), Endpoints: endpoints}
	api := w.client.DiscoveryV1().EndpointSlices("shop")
	if _, err := api.Update(w.tb.Context(), s, metav1.UpdateOptions{}); err != nil {
		if _, err = api.Create(w.tb.Context(), s, metav1.CreateOptions{}); err != nil {
			w.tb.Fatal(err)
		}
	}
}

// alone is a host that has the loopback only: its proxies can be asked anywhere.
func alone() Host {
	h := dual()
	h.Addresses = nil
	return h
}

func podAt(to netip.AddrPort, hostPort uint16) Pod {
	return Pod{Namespace: "shop", Name: "cache", UID: "cache-uid", Addresses: []netip.Addr{to.Addr()},
		Ports: []PodPort{{HostPort: hostPort, Port: to.Port(), Protocol: tcp}}}
}

func answer(port uint16) string {
	conn, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	buffer := make([]byte, 1)
	if _, err := io.ReadFull(conn, buffer); err != nil {
		return err.Error()
	}
	return string(buffer)
}

func TestHostPortFollowsItsPod(t *testing.T) {
	w := watch(t, alone())
	port := freeport.Number(t)
	w.SetPods([]Pod{podAt(hosttest.Greeter(t, "a"), port)})
	hosttest.Eventually(t, "the pod answers", func() bool { return answer(port) == "a" })
	w.SetPods([]Pod{podAt(hosttest.Greeter(t, "b"), port)})
	hosttest.Eventually(t, "the other pod answers", func() bool { return answer(port) == "b" })
	w.SetPods(nil)
	hosttest.Eventually(t, "nobody answers", func() bool { r := answer(port); return r != "a" && r != "b" })
	if list := w.events.all(); len(list) > 0 {
		t.Errorf("events %q", list)
	}
}

// A port that somebody has is told of once, tried again, and nobody else's matter.
func TestATakenPort(t *testing.T) {
	w := watch(t, alone())
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken, free := uint16(other.Addr().(*net.TCPAddr).Port), freeport.Number(t)
	pod := podAt(hosttest.Greeter(t, "a"), taken)
	pod.Ports = append(pod.Ports, PodPort{HostPort: free, Port: pod.Ports[0].Port, Protocol: tcp})
	w.SetPods([]Pod{pod})
	hosttest.Eventually(t, "the free port answers", func() bool { return answer(free) == "a" })
	hosttest.Eventually(t, "the pod's owner is told", func() bool { return len(w.events.all()) == 1 })
	if event := w.events.all()[0]; !strings.HasPrefix(event, "Pod shop/cache HostPortUnavailable: Node n1: hostPort: ") ||
		!strings.Contains(event, fmt.Sprintf("port %d ", taken)) || !strings.Contains(event, "another program") {
		t.Errorf("event %q", event)
	}
	for range 3 {
		w.enqueue()
		hosttest.Eventually(t, "it is tried again", func() bool { return len(w.wanted) == 0 })
	}
	other.Close()
	hosttest.Eventually(t, "the port that is free now answers", func() bool { return answer(taken) == "a" })
	if list := w.events.all(); len(list) != 1 {
		t.Errorf("events %q", list)
	}
}

// A host port does not take what comes from outside from a program of the host's that has the port, not even at first.
func TestAProgramOfTheHostKeepsItsPort(t *testing.T) {
	host := alone()
	host.Addresses = addrs("127.0.0.2")
	w := watch(t, host)
	const number = 22222
	program, err := net.Listen("tcp4", fmt.Sprint("0.0.0.0:", number))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	stolen := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			changed := w.Changed()
			if entries, _ := w.Entries(); len(entries) > 0 {
				close(stolen)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	w.SetPods([]Pod{podAt(hosttest.Greeter(t, "a"), number)})
	hosttest.Eventually(t, "the pod's owner is told", func() bool { return len(w.events.all()) == 1 })
	if event := w.events.all()[0]; !strings.Contains(event, "what comes there from pods and from outside is that "+
		"program's, too") {
		t.Errorf("event %q", event)
	}
	cancel()
	watching.Wait()
	select {
	case <-stolen:
		t.Error("what comes from outside for the program went to the pod")
	default:
	}
	program.Close()
	hosttest.Eventually(t, "the port is the pod's", func() bool {
		entries, _ := w.Entries()
		return len(entries) == 1 && answer(number) == "a"
	})

	client, err := net.Listen("tcp4", "127.0.0.2:0") // or a connection: nobody can tell
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	high := uint16(client.Addr().(*net.TCPAddr).Port)
	w.SetPods([]Pod{podAt(hosttest.Greeter(t, "a"), high)})
	hosttest.Eventually(t, "a port of connections is the pod's outside", func() bool {
		entries, _ := w.Entries()
		return len(entries) == 1 && entries[0].Port == high && len(w.events.all()) == 2
	})
	if event := w.events.all()[1]; !strings.Contains(event, "clients that OVN serves") {
		t.Errorf("event %q", event)
	}
}

func TestUnrelatedPortsGoOn(t *testing.T) {
	w := watch(t, alone())
	kept, gone := freeport.Number(t), freeport.Number(t)
	one, two := podAt(hosttest.Greeter(t, "a"), kept), podAt(hosttest.Greeter(t, "b"), gone)
	two.Name, two.UID = "other", "other-uid"
	w.SetPods([]Pod{one, two})
	hosttest.Eventually(t, "both answer", func() bool { return answer(kept) == "a" && answer(gone) == "b" })
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", kept))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.SetPods([]Pod{one})
	hosttest.Eventually(t, "the other is gone", func() bool { return answer(gone) != "b" })
	w.apply(balanced(nil))
	hosttest.Eventually(t, "the plan has the Service", func() bool { entries, _ := w.Entries(); return len(entries) > 3 })
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("a connection of an unrelated port ended with %v", err)
	}
}

func TestEntriesAndRoutesFollowServices(t *testing.T) {
	w := watch(t, dual())
	entries := func() string {
		list, _ := w.Entries()
		return fmt.Sprint(list)
	}
	changed := w.Changed()
	w.apply(balanced(nil))
	<-changed
	hosttest.Eventually(t, "entries", func() bool {
		return entries() == "[{invalid IP tcp 30080} {invalid IP udp 30053} {192.0.2.50 tcp 80} {192.0.2.50 udp 53} "+
			"{192.0.2.60 tcp 80} {192.0.2.60 udp 53}]"
	})
	hosttest.Eventually(t, "the nodes are known", func() bool {
		routes, all := w.Routes()
		return all && slices.Equal(routes, addrs("169.254.169.4", "192.0.2.50", "192.0.2.60", "fd69::4"))
	})
	facts := contract.NodeFacts{Chassis: "n2", MTU: 1400, Addresses: addrs("192.0.2.60")}
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n2", Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hosttest.Eventually(t, "no route to a node's own address", func() bool {
		routes, _ := w.Routes()
		return slices.Equal(routes, addrs("169.254.169.4", "192.0.2.50", "fd69::4"))
	})
	w.apply(balanced(func(s *corev1.Service) { s.Labels = map[string]string{contract.ProxyNameLabel: "mine"} }))
	hosttest.Eventually(t, "nothing of a Service that is somebody else's", func() bool {
		routes, _ := w.Routes()
		return entries() == "[]" && len(routes) == 2
	})
	w.apply(balanced(nil))
	hosttest.Eventually(t, "entries again", func() bool { return entries() != "[]" })
	if err := w.client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	hosttest.Eventually(t, "nothing of a Service that was deleted", func() bool { return entries() == "[]" })
}

// Until everything is known nothing is said, so that what is in force can stay.
func TestNothingIsKnownAtTheStart(t *testing.T) {
	w, err := New(Config{Client: nodetest.FakeAPI(balanced(nil)), Node: "n1", Report: (&told{}).tell, Sound: func() bool {
		return true
	}})
	if err != nil {
		t.Fatal(err)
	}
	unknown := func(what string) {
		t.Helper()
		if _, known := w.Entries(); known {
			t.Errorf("entries are known without the %s", what)
		}
		if _, all := w.Routes(); all {
			t.Errorf("routes are known without the %s", what)
		}
	}
	unknown("Services")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	hosttest.Eventually(t, "the Services are listed", func() bool { return w.synced() })
	unknown("host and its pods")
	host := dual()
	w.SetHost(host)
	hosttest.Eventually(t, "it is looked at", func() bool { entries, _ := w.Entries(); return len(entries) > 0 })
	unknown("pods")
	w.SetPods(nil)
	hosttest.Eventually(t, "all is known", func() bool {
		entries, known := w.Entries()
		routes, all := w.Routes()
		return known && all && len(entries) == 6 && len(routes) == 4
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// endpointOn is an endpoint of a node.
func endpointOn(node, address string, conditions discoveryv1.EndpointConditions) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &node, Conditions: conditions}
}

func TestHealthCheckNodePort(t *testing.T) {
	yes, no := true, false
	ready := discoveryv1.EndpointConditions{Ready: &yes}
	leaving := discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	w := watch(t, alone())
	port := freeport.Number(t)
	w.slice("web-4", discoveryv1.AddressTypeIPv4, endpointOn("n1", "10.244.1.5", ready), endpointOn("n1", "10.244.1.6",
		discoveryv1.EndpointConditions{}),
		endpointOn("n2", "10.244.2.5", ready), endpointOn("n1", "10.244.1.7", leaving))
	w.slice("web-6", discoveryv1.AddressTypeIPv6, endpointOn("n1", "fd00:1::5", ready),
		endpointOn("n1", "fd00:1::6", ready))
	check := func(port uint16) (status, local int, text string) {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/whatever", port))
		if err != nil {
			return 0, 0, err.Error()
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		var said struct {
			Service             struct{ Namespace, Name string }
			LocalEndpoints      int
			ServiceProxyHealthy bool
		}
		if err := json.Unmarshal(body, &said); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		if weight := response.Header.Get("X-Load-Balancing-Endpoint-Weight"); weight != fmt.Sprint(said.LocalEndpoints) ||
			response.Header.Get("Content-Type") != "application/json" || said.Service.Namespace != "shop" ||
			said.Service.Name != "web" {
			t.Errorf("%v %s", response.Header, body)
		}
		return response.StatusCode, said.LocalEndpoints, string(body)
	}
	expect := func(what string, port uint16, status, local int) {
		t.Helper()
		hosttest.Eventually(t, what, func() bool { s, l, _ := check(port); return s == status && l == local })
	}
	service := func(port uint16, change func(*corev1.Service)) {
		w.apply(balanced(func(s *corev1.Service) {
			s.Spec.HealthCheckNodePort = int32(port)
			if change != nil {
				change(s)
			}
		}))
	}
	service(port, nil)
	expect("two are ready here", port, http.StatusOK, 2)
	w.slice("web-6", discoveryv1.AddressTypeIPv6)
	w.slice("web-4", discoveryv1.AddressTypeIPv4, endpointOn("n1", "10.244.1.5", leaving), endpointOn("n2", "10.244.2.5",
		ready))
	expect("none is ready here, though one still serves", port, http.StatusServiceUnavailable, 0)
	w.slice("web-4", discoveryv1.AddressTypeIPv4, endpointOn("n1", "10.244.1.5", ready))
	expect("one is ready again", port, http.StatusOK, 1)
	w.sound(false)
	expect("a node that is not sound", port, http.StatusServiceUnavailable, 1)
	w.sound(true)

	next := freeport.Number(t)
	service(next, nil)
	expect("another port", next, http.StatusOK, 1)
	if status, _, _ := check(port); status != 0 {
		t.Error("the port before still answers")
	}
	service(next, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
	hosttest.Eventually(t, "nobody answers for policy Cluster", func() bool {
		status, _, _ := check(next)
		return status == 0
	})

	holder, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	service(port, nil)
	hosttest.Eventually(t, "a taken port is told of", func() bool {
		list := w.events.all()
		return len(list) == 1 && strings.HasPrefix(list[0], "Service shop/web HealthCheckPortUnavailable: Node n1: "+
			"spec.healthCheckNodePort: ")
	})
}

// Who asks and does not listen, or asks nothing, keeps no connection.
func TestHealthChecksEnd(t *testing.T) {
	port := freeport.Number(t)
	server, err := startCheck(t.Context(), healthCheck{Object{Namespace: "shop", Name: "web"}, port}, func() []*slice {
		return []*slice{}
	}, "n1", func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	at := fmt.Sprintf("127.0.0.1:%d", port)
	rude, err := net.Dial("tcp4", at)
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := rude.Write([]byte(strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1000))); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range checkLimits.Connections - 1 {
		silent, err := net.Dial("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	response, err := http.Get("http://" + at)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	select {
	case <-ended:
	case <-time.After(nodetest.Patience):
		t.Error("a client that does not listen still has its connection")
	}
}
