//go:build cluster

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// longAffinity does not end in a test, however slow the machine is.
	longAffinity = 10 * time.Minute
	// shortAffinity ends soon.
	shortAffinity = 4 * time.Second
	// secondRetry is when a SYN that was lost twice is sent for the third time (RFC 6298: after one second,
	// and two more). Who has an answer earlier lost one at most. On a machine with nothing else to do that
	// takes 1.07 s; here all clients ask at once.
	secondRetry = 3 * time.Second
	// crowdSize is the number of clients of each address family.
	crowdSize = 12
)

// crowd is a number of clients that differ by their addresses, and what they ask.
type crowd struct {
	clients [2][]string // IPv4, IPv6
	urls    [2][]string
}

// newCrowd has addresses of a network that is at home on the host outside, from first on. Each test has a
// network of its own.
func newCrowd(network, first int, urls ...string) crowd {
	var c crowd
	for i := range crowdSize {
		c.clients[0] = append(c.clients[0], fmt.Sprintf("198.51.%d.%d", network, first+i))
		c.clients[1] = append(c.clients[1], fmt.Sprintf("2001:db8:51:%d::%x", network, first+i))
	}
	for _, url := range urls {
		family := strings.Count(url[:strings.LastIndex(url, ":")], "[") // brackets are IPv6's
		c.urls[family] = append(c.urls[family], url)
	}
	return c
}

// ask has all ask at once: it must not take as long as affinity lasts.
func (c crowd) ask(times int) heard {
	var all heard
	for family, clients := range c.clients {
		h := outsideHost.ask(append([]string{"-timeout", "8s", "-at-once", fmt.Sprint(len(clients) * len(c.urls[family])),
			"-n", fmt.Sprint(times),
			"-from", strings.Join(clients, ",")}, c.urls[family]...)...)
		if h.err != nil {
			return h
		}
		all.replies = append(all.replies, h.replies...)
	}
	return all
}

// loyal is the backend of each client and URL. One that has several is an error.
func (h heard) loyal() (map[string]string, error) {
	if err := h.failed(); err != nil {
		return nil, err
	}
	backends := map[string]string{}
	for _, r := range h.replies {
		if len(r.Answers) != 1 {
			return nil, fmt.Errorf("a client has several backends: %s", r)
		}
		for backend := range r.Answers {
			backends[r.From+" "+r.URL] = backend
		}
	}
	return backends, nil
}

// moved are the clients that have another backend than before.
func moved(before, after map[string]string) []string {
	var clients []string
	for client, backend := range after {
		if before[client] != backend {
			clients = append(clients, client)
		}
	}
	return clients
}

// slowest answers over a scheme, in milliseconds: the median, and the slowest of all.
func (h heard) slowest(scheme string) (median, worst int64) {
	var all []int64
	for _, r := range h.replies {
		if strings.HasPrefix(r.URL, scheme+":") {
			all = append(all, r.SlowestMs)
		}
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

func stickyService(name string, timeout time.Duration, spec string) string {
	return service(name, fmt.Sprintf("sessionAffinity: ClientIP\nsessionAffinityConfig: {clientIP: {timeoutSeconds: "+
		"%d}}\n%s", int(timeout.Seconds()), spec))
}

// crowdNetwork is at home on the host outside until the test ends.
func crowdNetwork(t testing.TB, network int) {
	t.Helper()
	for _, text := range []string{"198.51.%d.0/24", "2001:db8:51:%d::/64"} {
		prefix := netip.MustParsePrefix(fmt.Sprintf(text, network))
		own(t, outsideHost, prefix)
		route(t, central, outsideAddress(t, outsideHost, prefix.Addr()), prefix)
	}
}

// stickyURLs are those of a Service's node ports on a Linux and on a Windows node.
func stickyURLs(t testing.TB, service string) []string {
	t.Helper()
	ports := nodePorts(t, service)
	var urls []string
	for _, node := range []string{"l1", "w1"} {
		for _, a := range nodeAddresses(t, node) {
			urls = append(urls, httpURL(a, ports["http"], "hostname"), udpURL(a, ports["udp"], "hostname"))
		}
	}
	eventually(t, inForce, service+" is served", func() error { return outsideHost.ask(urls...).failed() })
	return urls
}

// TestSessionAffinity: new clients outside ask at the NodePorts of a Linux and of a Windows node.
func TestSessionAffinity(t *testing.T) {
	t.Parallel()
	cluster.Apply(t, stickyService("sticky", longAffinity, "type: NodePort")+slicesOf(t, "sticky", "l1", "l2", "w1"))
	crowdNetwork(t, 101)
	urls := stickyURLs(t, "sticky")
	people := newCrowd(101, 1, urls...)
	first := people.ask(1)
	before, err := first.loyal()
	if err != nil {
		t.Fatal(err)
	}
	if backends := first.answers(); !slices.Equal(backends, []string{web("l1"), web("l2"), web("w1")}) {
		t.Errorf("%d clients are spread over %v", len(before), backends)
	}
	for _, scheme := range []string{"http", "udp"} {
		median, worst := first.slowest(scheme)
		t.Logf("first answer over %s to %d new clients: median %d ms, slowest %d ms", scheme, len(before)/2, median, worst)
		if scheme == "http" && worst > onThisMachine(secondRetry, median) {
			t.Errorf("a client's first answer took %d ms: its SYN was lost more than once", worst)
		}
	}
	after := stay(t, people)
	if m := moved(before, after); len(m) > 0 {
		t.Errorf("these have another backend than at first: %v", m)
	}

	before = after
	setEndpoints(t, "sticky", "l1", "l2", "w1", "w2")
	newcomers := 1 + crowdSize
	eventually(t, inForce, "newcomers have the new backend", func() error {
		h := newCrowd(101, newcomers%200, urls...).ask(1)
		newcomers += crowdSize
		if err := h.failed(); err != nil || slices.Contains(h.answers(), web("w2")) {
			return err
		}
		return fmt.Errorf("they have %v", h.answers())
	})
	if m := moved(before, stay(t, people)); len(m) > 0 {
		t.Errorf("with a backend more %d of %d clients moved: %v", len(m), len(before), m)
	}

	setEndpoints(t, "sticky", "l1", "w1", "w2")
	eventually(t, inForce, "nobody has the backend that went", func() error {
		after, err = people.ask(2).loyal()
		if err == nil && slices.Contains(slices.Collect(maps.Values(after)), web("l2")) {
			err = fmt.Errorf("somebody has: %v", after)
		}
		return err
	})
	for _, client := range moved(before, after) {
		if before[client] != web("l2") {
			t.Errorf("with a backend less %s moved from %s to %s", client, before[client], after[client])
		}
	}
}

// TestSessionAffinityEnds when a client has not asked for as long as the timeout: it is a new one then. One
// may come back to its backend by chance, not all of them.
func TestSessionAffinityEnds(t *testing.T) {
	t.Parallel()
	long(t)
	cluster.Apply(t, stickyService("fickle", shortAffinity, "type: NodePort\nselector: {app: web}"))
	crowdNetwork(t, 102)
	people := newCrowd(102, 1, stickyURLs(t, "fickle")...)
	before, err := people.ask(1).loyal()
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * shortAffinity)
	after, err := people.ask(1).loyal()
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"http", "udp"} {
		if !slices.ContainsFunc(moved(before, after), func(client string) bool {
			return strings.Contains(client, " "+scheme+":")
		}) {
			t.Errorf("%s: after the timeout all clients have the backend that they had before", scheme)
		}
	}
}

// stay asks several times and ends the test if a client has several backends.
func stay(t testing.TB, c crowd) map[string]string {
	t.Helper()
	backends, err := c.ask(4).loyal()
	if err != nil {
		t.Fatal(err)
	}
	return backends
}

// TestSessionAffinityInside: pods and hosts at the ClusterIP, which meet a load balancer of their own node's.
func TestSessionAffinityInside(t *testing.T) {
	t.Parallel()
	long(t)
	cluster.Apply(t, stickyService("sticky-inside", longAffinity, "selector: {app: web}"))
	urls := webURLs(clusterAddresses(t, "sticky-inside")...)
	for _, from := range clients(t)[1:] {
		eventually(t, inForce, from.String()+" is served", func() error { return from.ask(urls...).failed() })
		h := from.ask(append([]string{"-n", "12", "-timeout", "8s"}, urls...)...)
		if _, err := h.loyal(); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
}
