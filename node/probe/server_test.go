package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

var web = contract.PodReference{Namespace: "shop", Name: "web", UID: "u1"}

// requestOf is one of pod web for a Service.
func requestOf(change func(*contract.ProbeRequest)) contract.ProbeRequest {
	r := contract.ProbeRequest{Pod: web, User: "alice", Protocol: "tcp", Source: netip.MustParseAddr("10.244.0.5"),
		Destination: netip.MustParseAddrPort("10.96.0.10:3306")}
	if change != nil {
		change(&r)
	}
	return r
}

// node sends probes from the sandbox of pod web alone.
type node struct {
	mu      sync.Mutex
	entered []string
	sent    int
	answers func(context.Context) (string, error)
}

func (n *node) server() *Server {
	s := NewServer(func(pod contract.PodReference) (string, error) {
		if pod != web {
			return "", errors.New("no such pod")
		}
		return "/run/netns/web", nil
	}, func(_ context.Context, sandbox string, do func() error) error {
		n.mu.Lock()
		n.entered = append(n.entered, sandbox)
		n.mu.Unlock()
		return do()
	})
	s.send = func(ctx context.Context, _ contract.ProbeRequest) (string, error) {
		n.mu.Lock()
		n.sent++
		n.mu.Unlock()
		return n.answers(ctx)
	}
	return s
}

func accepts(context.Context) (string, error) { return api.ProbeAnswered, nil }

// ask writes a request, and reads the whole reply.
func ask(t *testing.T, s *Server, line string) (said contract.ProbeReply) {
	t.Helper()
	conn, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, line) }() // it need not be read to the end
	answer, err := io.ReadAll(conn)
	if err = errors.Join(err, json.Unmarshal(answer, &said)); err != nil {
		t.Errorf("%.200s: told %q, %v", line, answer, err)
	}
	return said
}

func text(t *testing.T, r contract.ProbeRequest) string {
	t.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

// TestAProbeIsSentInsideThePod and its result is replied, with the time that it took.
func TestAProbeIsSentInsideThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{answers: func(context.Context) (string, error) {
			time.Sleep(time.Second) // of the test's own clock
			return api.ProbeRefused, nil
		}}
		said := ask(t, n.server(), text(t, requestOf(nil)))
		if want := (contract.ProbeReply{Result: api.ProbeRefused, After: time.Second}); said != want {
			t.Errorf("told %+v, want %+v", said, want)
		}
		if len(n.entered) != 1 || n.entered[0] != "/run/netns/web" {
			t.Errorf("the probe is sent in %q", n.entered)
		}
	})
}

// TestAProbeEnds: whatever it waits for, its time is over after a few seconds.
func TestAProbeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{answers: func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return api.ProbeUnanswered, nil
		}}
		if said := ask(t, n.server(), text(t, requestOf(nil))); said.After != contract.ProbeTime {
			t.Errorf("told %+v", said)
		}
	})
}

// TestRefusedProbes: the reply says why, and nothing is sent.
func TestRefusedProbes(t *testing.T) {
	to := func(destination string) func(*contract.ProbeRequest) {
		return func(r *contract.ProbeRequest) { r.Destination = netip.MustParseAddrPort(destination) }
	}
	for name, c := range map[string]struct {
		change func(*contract.ProbeRequest)
		want   string
	}{
		"another pod of the name": {func(r *contract.ProbeRequest) { r.Pod.UID = "u2" }, "no such pod"},
		"no UID":                  {func(r *contract.ProbeRequest) { r.Pod.UID = "" }, "without a UID"},
		"the protocol":            {func(r *contract.ProbeRequest) { r.Protocol = "icmp" }, "protocol: "},
		"no source":               {func(r *contract.ProbeRequest) { r.Source = netip.Addr{} }, "source: "},
		"any source":              {func(r *contract.ProbeRequest) { r.Source = netip.IPv4Unspecified() }, "source: "},
		"the pod itself":          {to("127.0.0.1:80"), "destination: "},
		"its link":                {to("169.254.169.254:80"), "destination: "},
		"many hosts":              {to("224.0.0.1:80"), "destination: "},
		"all hosts":               {to("255.255.255.255:80"), "destination: "},
		"no host":                 {to("0.0.0.0:80"), "destination: "},
		"another family":          {to("[2001:db8::1]:80"), "destination: "},
		"a family in the other":   {to("[::ffff:192.0.2.1]:80"), "destination: "},
		"no port":                 {to("192.0.2.1:0"), "no port"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{answers: accepts}
			if said := ask(t, n.server(), text(t, requestOf(c.change))); !strings.Contains(said.Error, c.want) ||
				n.sent > 0 {
				t.Errorf("told %+v, want %q; %d probes are sent", said, c.want, n.sent)
			}
		})
	}
	for name, line := range map[string]string{
		"a sandbox":          `{"sandbox": "/proc/1/ns/net"}` + "\n",
		"no JSON":            "tcp\n",
		"a line without end": `{"user": "` + strings.Repeat("a", maxRequest),
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{answers: accepts}
			if said := ask(t, n.server(), line); !strings.Contains(said.Error, "read the request") || n.sent > 0 {
				t.Errorf("told %+v; %d probes are sent", said, n.sent)
			}
		})
	}
	t.Run("a network that is another's", func(t *testing.T) {
		n := &node{answers: func(context.Context) (string, error) {
			return judge(requestOf(nil), &net.OpError{Op: "dial", Err: notAvailable})
		}}
		if said := ask(t, n.server(), text(t, requestOf(nil))); said.Result != "" || !said.NoAddress ||
			!strings.Contains(said.Error, "does not have the address 10.244.0.5 of pod shop/web") {
			t.Errorf("told %+v", said)
		}
	})
}

// TestPlaces are bounded, and free again when a probe has ended.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{answers: func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return api.ProbeUnanswered, nil
		}}
		server := n.server()
		var others sync.WaitGroup
		for range maxProbes {
			others.Go(func() { ask(t, server, text(t, requestOf(nil))) })
		}
		synctest.Wait()
		if said := ask(t, server, text(t, requestOf(nil))); !strings.Contains(said.Error, "4 probes are under way") {
			t.Errorf("beyond the bound: %+v", said)
		}
		others.Wait()
		if said := ask(t, server, text(t, requestOf(nil))); said.Error != "" {
			t.Errorf("when the others have ended: %+v", said)
		}
	})
}

// FuzzRequest: what is let through is about one other host.
func FuzzRequest(f *testing.F) {
	line, err := json.Marshal(requestOf(nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"pod": {"uid": "u"}, "protocol": "udp", "source": "fd00::5", "destination": "[fe80::1%eth0]:53"}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		r, err := readRequest(bytes.NewReader(said))
		if to := r.Destination.Addr(); err == nil && (to.IsLoopback() || to.IsMulticast() || to.IsLinkLocalUnicast() ||
			to.IsUnspecified() || to.Zone() != "" || to.BitLen() != r.Source.BitLen() || r.Destination.Port() == 0 ||
			r.Pod.UID == "") {
			t.Errorf("let through: %+v", r)
		}
	})
}
