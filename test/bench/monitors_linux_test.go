package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/lab/pki"
)

const (
	sessionsVariable = "WEFT_BENCH_SESSIONS" // how many nodes are connected; 1,50,200
	relayVariable    = "WEFT_BENCH_RELAY"    // whether a relay is between the guard and the Southbound's server; false
	guardAddress     = "127.0.0.1:9642"
	// monitorRounds is how often a pod comes.
	monitorRounds = 5
	// quiet is how long nothing happens: each session asks for some echoes.
	quiet = 5 * probeInterval
)

// BenchmarkMonitors is what the Southbound's server and its guard have to do for many nodes. They read all, for which
// the server has the same text, or each its part, for which it looks at the conditions of each. A real ovn-controller
// says what it monitors. As many synthetic ones then monitor the same of their nodes, through the guard, and give up
// connections as it does. The cluster is that of BenchmarkScale, with as many nodes as the most sessions. With
// WEFT_BENCH_RELAY=true a relay is between the guard and the server.
func BenchmarkMonitors(b *testing.B) {
	var r report
	sizes, values, relayed := numbers(b, sessionsVariable, "1,50,200"), monitorValues(b), relayed(b)
	most := slices.Max(sizes)
	allowFiles(b, most)
	scenario := scaleScenario(max(most, 3))
	c := &largeCluster{load: large(b, max(most, 3))}
	c.begin(b, &r, scenario)
	node := c.startNode(b)
	recorded := map[string]*recording{}
	for _, all := range values {
		recorded[all] = c.record(b, node, all)
	}
	content, monitors := c.sb.read(b), map[string][]string{}
	for _, all := range values {
		monitors[all] = c.monitors(b, content, recorded[all], most)
		r.add(monitorScenario(scenario, all), "most clauses of a table, at the start", "clauses", float64(recorded[all].most))
		r.add(monitorScenario(scenario, all), "most clauses of a table, then", "clauses", float64(recorded[all].clauses()))
	}
	node.leave(b)
	c.nodes = nil
	c.cluster(b)
	credentials := newCredentials(b, most)
	for _, all := range values {
		for _, n := range sizes {
			m := &measurement{largeCluster: c, report: &r, credentials: credentials,
				scenario: monitorScenario(fmt.Sprintf("%d sessions", n), all)}
			m.measureSessions(b, monitors[all][:n], relayed)
		}
	}
	r.publish(b)
	r.print(os.Stdout)
	c.stop(b)
	c.nb.server.stop(b)
}

func relayed(b *testing.B) bool {
	b.Helper()
	text := cmp.Or(os.Getenv(relayVariable), "false")
	relayed, err := strconv.ParseBool(text)
	if err != nil {
		b.Fatalf("%s: %q is neither true nor false", relayVariable, text)
	}
	return relayed
}

// allowFiles has each process that is started later have two connections for each session, as the guard does.
func allowFiles(b *testing.B, sessions int) {
	b.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	limit.Max = max(limit.Max, uint64(2*sessions+1000))
	limit.Cur = limit.Max // which processes inherit only if it is set here
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatalf("allow %d open files: %v", limit.Max, err)
	}
}

// credentials are those of nodes, and of the guard before the Southbound.
type credentials struct {
	dir   string
	nodes []*tls.Config
}

func newCredentials(b *testing.B, nodes int) *credentials {
	b.Helper()
	authority, err := pki.NewAuthority("nodes")
	if err != nil {
		b.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "guard"})
	if err != nil {
		b.Fatal(err)
	}
	c := &credentials{dir: runDir(b, "guard")}
	if err := errors.Join(pair.Write(c.dir, "guard"), authority.Write(c.dir, "nodes")); err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		pair, err := authority.Issue(pki.Subject{Name: load.NodeName(i)})
		if err != nil {
			b.Fatal(err)
		}
		certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			b.Fatal(err)
		}
		c.nodes = append(c.nodes, &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true})
	}
	return c
}

// connect is how node i connects to the guard: from an address of its own, since the guard bounds what one may begin.
func (c *credentials) connect(i int) func(context.Context) (net.Conn, error) {
	dialer := &tls.Dialer{Config: c.nodes[i], NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{
		IP: net.IPv4(127, 1, byte(i/250), byte(i%250+1))}}}
	return func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", guardAddress) }
}

// startGuard runs the shipped binary before a server.
func startGuard(b *testing.B, c *credentials, database string) *process {
	b.Helper()
	file := func(name string) string { return filepath.Join(c.dir, name) }
	guard := start(b, "weft", c.dir, filepath.Join(os.Getenv(sandboxDir), "weft"), "southbound", "--listen="+guardAddress,
		"--ovn-southbound="+database, "--certificate="+file("guard.crt"), "--private-key="+file("guard.key"),
		"--node-ca="+file("nodes.crt"), "--metrics-address=")
	until(b, 5*time.Minute, "the guard listening", guard, func(context.Context) error {
		conn, err := net.Dial("tcp", guardAddress)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return guard
}

// startRelay runs a relay of the Southbound, as the playbooks do with weft_sb_relay.
func (c *largeCluster) startRelay(b *testing.B) *database {
	b.Helper()
	return serveDatabase(b, "relay", c.sb.dir, "relay:OVN_Southbound:"+c.sb.remote)
}

// cluster has the Southbound be a cluster of one server, as the playbooks make it. Only such a server, or a relay,
// knows what a client lacks that comes again.
func (c *largeCluster) cluster(b *testing.B) {
	b.Helper()
	c.sb.server.stop(b)
	file := filepath.Join(c.sb.dir, "cluster.db")
	run(b, ovnProgram(b, "ovsdb-tool"), "create-cluster", file, c.sb.file, "unix:"+filepath.Join(c.sb.dir, "sb.raft"))
	c.sb.file = file
	c.sb.serveAgain(b)
	c.wait(b, "sb")
}

// measurement is of so many sessions.
type measurement struct {
	*largeCluster
	report      *report
	scenario    string
	credentials *credentials
	relay       *database // nil without one
	guard       *process
	sessions    *crowd
	watch       *crowd // a session at the Southbound's server itself, which hears of a change first
	echoes      []time.Duration
}

// measureSessions has so many nodes start at the same time, be quiet, hear of pods, and come again at the same time:
// to a guard that starts, and to a server that starts.
func (m *measurement) measureSessions(b *testing.B, monitors []string, relayed bool) {
	b.Helper()
	m.replaceServer(b)
	m.wait(b, "sb")
	if relayed {
		m.relay = m.startRelay(b)
		defer func() { m.relay.server.stop(b) }()
	}
	m.guard = startGuard(b, m.credentials, m.front().remote) // an older one would remember how much nodes have read
	defer func() { m.guard.stop(b) }()
	ctx, end := context.WithCancel(b.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	m.sessions, m.watch = &crowd{number: len(monitors)}, &crowd{number: 1}
	m.watch.expect(expectation{})
	all.Go(func() { (&session{crowd: m.watch, dial: m.connect, tables: watched}).run(ctx) })
	if !m.watch.await(b, m.sb.server) {
		return
	}
	begin := func() time.Time {
		m.sessions.expect(expectation{})
		began := time.Now()
		for i, tables := range monitors {
			all.Go(func() { (&session{crowd: m.sessions, dial: m.credentials.connect(i), tables: tables}).run(ctx) })
		}
		return began
	}
	// Nothing follows a phase in which sessions have not come. Each begins when they have been quiet, since a session
	// whose connection was short waits longer. The new guard does not remember how much they have read: for this it
	// would have them wait when the new server comes.
	_ = m.come(b, "all start at once", begin) && m.measureQuiet(b) && m.measurePods(b) && m.measureGuard(b) &&
		m.measureQuiet(b) && m.measureServer(b)
	if len(m.echoes) > 0 {
		const name = "from an echo request to the next byte, "
		m.add(name+"p50", "ms", percentile(m.echoes, 50))
		m.add(name+"p99", "ms", percentile(m.echoes, 99))
		m.add(name+"longest", "ms", float64(slices.Max(m.echoes).Microseconds())/1000)
	}
}

// watched is the column that the text of measurePod is of.
const watched = `{"SB_Global":{"columns":["nb_cfg"]}}`

// connect is to the Southbound's server itself.
func (m *measurement) connect(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(m.sb.remote, "unix:"))
}

// front is what the guard is before.
func (m *measurement) front() *database {
	if m.relay != nil {
		return m.relay
	}
	return m.sb
}

func (m *measurement) frontName() string {
	if m.relay != nil {
		return "relay"
	}
	return "server"
}

func (m *measurement) add(name, unit string, value float64) {
	m.report.add(m.scenario, name, unit, value)
}

// station is a process between the Southbound's file and the sessions.
type station struct {
	name string
	*process
}

func (m *measurement) stations() []station {
	list := []station{{"server", m.sb.server}, {"guard", m.guard}}
	if m.relay != nil {
		list = append(list, station{"relay", m.relay.server})
	}
	return list
}

// addPeaks adds how much memory each of them has needed so far.
func (m *measurement) addPeaks(b *testing.B, name string) {
	b.Helper()
	for _, p := range m.stations() {
		m.add(name+", peak memory of the "+p.name, "MB", float64(p.peak(b))/1e6)
	}
}

// work is what processes have done, and what sessions have heard, until a moment.
type work struct {
	cpu   map[*process]time.Duration
	heard int64
}

func (m *measurement) worked(b *testing.B) work {
	b.Helper()
	w := work{map[*process]time.Duration{}, m.sessions.heard.Load()}
	for _, p := range m.stations() {
		w.cpu[p.process] = m.cpu(b, p.process)
	}
	return w
}

// tell reports the work since a moment, which may be done several times. All that a process has done since its start
// counts if it is another one.
func (m *measurement) tell(b *testing.B, name string, from work) {
	b.Helper()
	now := m.worked(b)
	for _, p := range m.stations() {
		m.add(name+", CPU of the "+p.name, "s", (now.cpu[p.process] - from.cpu[p.process]).Seconds())
	}
	m.add(name+", heard by each", "kB", float64(now.heard-from.heard)/1e3/float64(m.sessions.number))
}

// tellFates reports what has become of connections.
func (m *measurement) tellFates(name string) {
	f := m.sessions.fate()
	m.echoes = append(m.echoes, f.echoes...)
	m.add(name+", echo requests that were answered", "times", float64(len(f.echoes)))
	m.add(name+", connections given up for a lost probe", "times", float64(f.lost))
	m.add(name+", connections given up before they began", "times", float64(f.late))
	failed := 0
	for _, why := range slices.Sorted(maps.Keys(f.failed)) {
		failed += f.failed[why]
		m.add(name+", connections that failed, "+why, "times", float64(f.failed[why]))
	}
	m.add(name+", connections that failed otherwise", "times", float64(failed))
	m.add(name+", connections that read everything", "times", float64(f.everything))
}

// come has all sessions connect, and says whether all have done so. Begin has them do it, and is asked since when.
func (m *measurement) come(b *testing.B, name string, begin func() time.Time) bool {
	b.Helper()
	from := m.worked(b)
	began := begin()
	came := m.sessions.await(b, m.front().server)
	if came {
		m.add(name, "s", m.sessions.last.Sub(began).Seconds())
	}
	m.tell(b, name, from)
	m.tellFates(name)
	m.addPeaks(b, name)
	return came
}

// measureQuiet has nothing happen, so that sessions ask for echoes.
func (m *measurement) measureQuiet(b *testing.B) bool {
	b.Helper()
	name, from := fmt.Sprintf("nothing for %v", quiet), m.worked(b)
	select {
	case <-time.After(quiet):
	case <-m.guard.exited:
		b.Fatalf("the guard is gone\n%s", m.guard.tail())
	}
	m.tell(b, name, from)
	m.tellFates(name)
	return true
}

// measurePods has pods come.
func (m *measurement) measurePods(b *testing.B) bool {
	b.Helper()
	heard := true
	for round := 0; round < monitorRounds && heard; round++ {
		heard = m.measurePod(b)
	}
	m.tellFates("pods")
	m.addPeaks(b, "pods")
	return heard
}

// measurePod has a pod come, until all sessions have heard of all that northd makes of it.
func (m *measurement) measurePod(b *testing.B) bool {
	b.Helper()
	m.wait(b, "sb")
	m.members++
	pod := m.load.Member(m.load.SidePolicies()[0].Namespace, fmt.Sprint("member-", m.members))
	number := strings.TrimSpace(run(b, ovnProgram(b, "ovn-nbctl"), "--db="+m.nb.remote, "get", "NB_Global", ".", "nb_cfg"))
	now, err := strconv.Atoi(number)
	if err != nil {
		b.Fatalf("nb_cfg is %q: %v", number, err)
	}
	next := expectation{text: fmt.Sprintf(`"nb_cfg":%d`, now+1)} // which northd writes with the rest, or after it
	m.watch.expect(next)
	m.sessions.expect(next)
	from, began := m.worked(b), time.Now()
	m.apply(b, pod)
	m.wait(b, "sb")
	if !m.watch.await(b, m.sb.server) || !m.sessions.await(b, m.front().server) {
		return false
	}
	milliseconds := func(from, to time.Time) float64 { return float64(to.Sub(from).Microseconds()) / 1e3 }
	m.add("a pod, until the last session hears of it", "ms", milliseconds(began, m.sessions.last))
	m.add("a pod, from the server's word to the first session", "ms", milliseconds(m.watch.last, m.sessions.first))
	m.add("a pod, from the server's word to the last session", "ms", milliseconds(m.watch.last, m.sessions.last))
	m.tell(b, "a pod", from)
	return true
}

// measureGuard has all come to a guard that starts, and ask for what they lack, which is little.
func (m *measurement) measureGuard(b *testing.B) bool {
	b.Helper()
	return m.come(b, "all come again to a guard that starts", func() time.Time {
		m.guard.stop(b)
		m.sessions.expect(expectation{})
		m.guard = startGuard(b, m.credentials, m.front().remote)
		return m.guard.started
	})
}

// measureServer has all come to a server, or a relay, that starts. They read everything again: as from a server whose
// history begins later than what they know.
func (m *measurement) measureServer(b *testing.B) bool {
	b.Helper()
	forget := expectation{forget: true}
	return m.come(b, fmt.Sprintf("all come again to a %s that starts", m.frontName()), func() time.Time {
		m.front().server.stop(b)
		m.sessions.expect(forget)
		m.front().serveAgain(b)
		return m.front().server.started
	})
}

// replaceServer has another server of the Southbound begin with the same file.
func (c *largeCluster) replaceServer(b *testing.B) {
	b.Helper()
	c.sb.server.stop(b)
	c.sb.serveAgain(b)
}
