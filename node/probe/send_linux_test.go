package probe

import (
	"context"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodetest"
)

// The tests have a network of their own.
func TestMain(m *testing.M) { nodetest.Main(m) }

// network is what a pod finds outside: its host forwards, answers for some addresses that there is no way, and keeps
// silent about others.
const network = `
ip link add weft0 type veth peer name eth0 netns pod
ip addr add 10.9.1.1/24 dev weft0
ip addr add fd09::1/64 dev weft0 nodad
ip link set weft0 up
ip -n pod addr add 10.9.1.2/24 dev eth0
ip -n pod addr add fd09::2/64 dev eth0 nodad
ip -n pod link set eth0 up
ip -n pod route add default via 10.9.1.1
ip -n pod route add default via fd09::1
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip route add unreachable 198.51.100.1
ip -6 route add unreachable 2001:db8:9::1
ip neigh add 10.9.1.77 lladdr 02:00:00:00:00:77 dev weft0
ip -n pod neigh add 10.9.1.77 lladdr 02:00:00:00:00:77 dev eth0
ip -n pod neigh add fd09::77 lladdr 02:00:00:00:00:77 dev eth0
`

// plugPod gives a sandbox a way to the test's own network.
func plugPod(t *testing.T) (sandbox string) {
	t.Helper()
	sandbox = nodetest.Sandbox(t, "pod")
	for line := range strings.Lines(strings.TrimSpace(network)) {
		words := strings.Fields(line)
		if output, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, output)
		}
	}
	return sandbox
}

// TestWhatProbesMeet sends real ones from the network of a pod.
func TestWhatProbesMeet(t *testing.T) {
	sandbox := plugPod(t)
	system, err := linux.New(linux.Config{StateFile: nodetest.Folder(t) + "/host.json"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(protocol, source, destination string, port uint16) (result string, err error) {
		limit := nodetest.Patience
		if strings.HasSuffix(destination, "77") { // nobody ever answers there
			limit = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err = system.InSandbox(ctx, sandbox, func() (err error) {
			result, err = send(ctx, contract.ProbeRequest{Pod: web, Protocol: protocol, Source: netip.MustParseAddr(source),
				Destination: netip.AddrPortFrom(netip.MustParseAddr(destination), port)})
			return err
		})
		return result, err
	}
	for _, family := range []struct{ pod, host, nobody, noWay string }{
		{"10.9.1.2", "10.9.1.1", "10.9.1.77", "198.51.100.1"}, {"fd09::2", "fd09::1", "fd09::77", "2001:db8:9::1"},
	} {
		tcp, udp := serve(t, family.host)
		for _, c := range []struct {
			protocol, destination string
			port                  uint16
			want                  string
		}{
			{"tcp", family.host, tcp, api.ProbeAnswered}, {"udp", family.host, udp, api.ProbeAnswered},
			{"tcp", family.host, 1, api.ProbeRefused}, {"udp", family.host, 1, api.ProbeRefused},
			{"tcp", family.nobody, 80, api.ProbeUnanswered}, {"udp", family.nobody, 53, api.ProbeUnanswered},
			{"tcp", family.noWay, 80, api.ProbeUnreachable}, {"udp", family.noWay, 53, api.ProbeUnreachable},
		} {
			if got, err := ask(c.protocol, family.pod, c.destination, c.port); got != c.want || err != nil {
				t.Errorf("%s %s port %d: %q, %v; want %q", c.protocol, c.destination, c.port, got, err, c.want)
			}
		}
		for _, protocol := range []string{"tcp", "udp"} {
			if got, err := ask(protocol, family.host, family.host, tcp); got != "" || err == nil ||
				!strings.Contains(err.Error(), "does not have the address "+family.host) {
				t.Errorf("%s with an address of the host's: %q, %v", protocol, got, err)
			}
		}
	}
	t.Run("sctp", func(t *testing.T) { hasSCTPOrSaysSo(t, ask) })
}

// hasSCTPOrSaysSo: kernels without its module say so.
func hasSCTPOrSaysSo(t *testing.T, ask func(protocol, source, destination string, port uint16) (string, error)) {
	got, err := ask("sctp", "10.9.1.2", "10.9.1.1", 1)
	if got != api.ProbeRefused && (err == nil || !strings.Contains(err.Error(), "has no SCTP")) {
		t.Errorf("nobody listens by SCTP: %q, %v", got, err)
	}
}
