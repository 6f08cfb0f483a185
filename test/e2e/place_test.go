//go:build cluster

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/test/companion"
)

// place is where clients and servers of the tests run: a machine, or a network namespace in it. It is
// entered from below, not through kubelet and the API server, which may be among those that die.
type place struct {
	machine   string
	namespace string // path in the machine
}

// central is the lab's control plane, and to the nodes a host outside, which routes between the
// nodes' networks and the rest of the world.
var central = host("central")

func host(machine string) place { return place{machine: machine} }

// inPod is the network of a pod of the default namespace that is on that node.
func inPod(t testing.TB, pod, node string) place {
	t.Helper()
	return place{node, podNamespace(t, node, podAddresses(t, pod)[0])}
}

// inWeb is the network of a node's pod of the workload.
func inWeb(t testing.TB, node string) place {
	t.Helper()
	return inPod(t, web(node), node)
}

func (p place) String() string {
	if p.namespace == "" {
		return "host " + p.machine
	}
	return "in " + filepath.Base(p.namespace) + " on " + p.machine
}

func (p place) args(argv []string) []string {
	args := []string{"exec", p.machine, "--"}
	if p.namespace != "" {
		args = append(args, "nsenter", "--net="+p.namespace, "--")
	}
	return append(args, argv...)
}

func (p place) try(argv ...string) (string, error) { return cluster.Try(p.args(argv)...) }

func (p place) must(t testing.TB, argv ...string) string {
	t.Helper()
	return cluster.Must(t, p.args(argv)...)
}

// start runs a program that says a word when it is ready. It ends with the test, if not before.
func (p place) start(t testing.TB, ready string, argv ...string) *companion.Program {
	t.Helper()
	return companion.Start(t, ready, cluster.Command(p.args(argv)...))
}

// serve runs a server until the test ends.
func (p place) serve(t testing.TB, argv ...string) {
	t.Helper()
	p.start(t, "started", append([]string{"sh", "-c",
		`"$@" > /dev/null 2>&1 & server=$!; echo started; cat > /dev/null; kill $server; wait $server`, "sh"}, argv...)...)
}

// serveWeb runs agnhost's server for HTTP and UDP on a port until the test ends.
func (p place) serveWeb(t testing.TB, port int) {
	t.Helper()
	p.serve(t, agnhost(), "netexec", fmt.Sprintf("--http-port=%d", port), fmt.Sprintf("--udp-port=%d", port))
	eventually(t, 20*time.Second, fmt.Sprintf("%s serves on %d", p, port), func() error {
		return p.ask("-timeout", "1s", httpURL(netip.MustParseAddr("127.0.0.1"), port, "healthz")).failed()
	})
}

func agnhost() string { return filepath.Join(repository(), "bin/lab/agnhost") }

// hold opens connections to NAME=ADDRESS:PORT of steady's servers and keeps them busy until it is stopped.
func (p place) hold(t testing.TB, targets ...string) *companion.Program {
	t.Helper()
	return p.start(t, "connected", append([]string{steady(), "dial"}, targets...)...)
}

// reply is what ask reports of one client and URL.
type reply struct {
	URL, From       string
	Answers, Errors map[string]int
	Unanswered      []string // the own addresses of questions that were met by silence or refused
	SlowestMs       int64
}

func (r reply) String() string {
	return fmt.Sprintf("%s%s: answers %v, errors %v %v, slowest %d ms", r.URL, strings.TrimSuffix(" from "+r.From,
		" from "), r.Answers, r.Errors, r.Unanswered, r.SlowestMs)
}

func asker() string { return filepath.Join(repository(), "bin/ask") }

// heard is what ask has heard.
type heard struct {
	replies []reply
	err     error // of ask itself
}

// ask runs ask with these flags and URLs. It asks once more if all that had no answer has met the driver's faults with
// ports.
func (p place) ask(args ...string) heard {
	begin := time.Now()
	h := p.askOnce(args...)
	if collided, err := h.collided(begin); err != nil {
		return heard{err: err}
	} else if collided {
		return p.askOnce(args...)
	}
	return h
}

func (p place) askOnce(args ...string) heard {
	out, err := p.try(append([]string{asker(), "-ports", nextPorts(questions(args))}, args...)...)
	if err != nil {
		return heard{err: err}
	}
	var h heard
	for line := range strings.Lines(out) {
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return heard{err: fmt.Errorf("ask says %q: %w", line, err)}
		}
		h.replies = append(h.replies, r)
	}
	return h
}

// The ports of clients that ask. They are none of NodePorts, and none that Linux or Windows gives to a client who asks
// for none: a kubelet's probes have those, each pod remembers them for a minute after it has ended the connection, and
// a client of the same host with the same port would get no answer meanwhile (docs/lab.md).
const (
	firstPort = 20000
	allPorts  = 30000 - firstPort
	restless  = 1024 // for who asks on and on
)

var ports struct {
	sync.Mutex
	taken uint32
}

// nextPorts are so many ports in a row, as ask wants them, which no client in any place has had for the longest time.
func nextPorts(count uint32) string {
	ports.Lock()
	defer ports.Unlock()
	if ports.taken+count > allPorts {
		ports.taken = 0
	}
	first := firstPort + ports.taken
	ports.taken += count
	return fmt.Sprintf("%d:%d", first, count)
}

// questions is how often ask asks with these flags and URLs.
func questions(args []string) uint32 {
	flags := flag.NewFlagSet("ask", flag.PanicOnError)
	times := flags.Uint("n", 1, "")
	from := flags.String("from", "", "")
	for _, name := range []string{"timeout", "every", "pad", "at-once"} {
		flags.String(name, "", "")
	}
	flags.Parse(args)
	return uint32(*times) * uint32(strings.Count(*from, ",")+1) * uint32(flags.NArg())
}

// keepAsking asks in its own time until it is stopped.
func (p place) keepAsking(t testing.TB, args ...string) *companion.Program {
	t.Helper()
	return p.start(t, "asking", append([]string{asker(), "-until-eof", "-ports", nextPorts(restless)}, args...)...)
}

// failed is the error of the first question that has not been answered each time.
func (h heard) failed() error {
	for _, r := range h.replies {
		if len(r.Errors) > 0 {
			return fmt.Errorf("%s", r)
		}
	}
	return h.err
}

// lost is how many questions had no answer, or a broken one.
func (h heard) lost() (n int) {
	for _, r := range h.replies {
		n += r.lost()
	}
	return n
}

func (r reply) lost() (n int) {
	for _, times := range r.Errors {
		n += times
	}
	return n
}

// refused is nil when all have been refused.
func (h heard) refused() error {
	for _, r := range h.replies {
		if len(r.Answers) > 0 || len(r.Errors) != 1 || r.Errors["refused"] == 0 {
			return fmt.Errorf("%s; want it refused", r)
		}
	}
	return h.err
}

// unanswered is nil when nobody has answered, in whatever way.
func (h heard) unanswered() error {
	for _, r := range h.replies {
		if len(r.Answers) > 0 {
			return fmt.Errorf("%s; want no answer", r)
		}
	}
	return h.err
}

// answers are all that have been heard, sorted.
func (h heard) answers() []string {
	var all []string
	for _, r := range h.replies {
		all = slices.AppendSeq(all, maps.Keys(r.Answers))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// among is nil when each question has been answered by some of those who are wanted, and by nobody else.
func (h heard) among(want []string) error {
	if err := h.failed(); err != nil {
		return err
	}
	for _, answer := range h.answers() {
		if !slices.Contains(want, answer) {
			return fmt.Errorf("%q answers, want %q: %v", answer, want, h.replies)
		}
	}
	return nil
}

// are is nil when each question has been answered, and the answers are these, in order.
func (h heard) are(want ...string) error {
	if err := h.failed(); err != nil {
		return err
	}
	if got := h.answers(); !slices.Equal(got, want) {
		return fmt.Errorf("the answers are %q, want %q: %v", got, want, h.replies)
	}
	return nil
}

func httpURL(addr netip.Addr, port int, path string) string {
	return fmt.Sprintf("http://%s/%s", netip.AddrPortFrom(addr, uint16(port)), path)
}

func udpURL(addr netip.Addr, port int, word string) string {
	return fmt.Sprintf("udp://%s/%s", netip.AddrPortFrom(addr, uint16(port)), word)
}
