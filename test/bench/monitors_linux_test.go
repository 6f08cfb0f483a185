package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/bench/ovsdblog"
	"github.com/weftnet/weft/test/lab/pki"
)

const (
	sessionsVariable = "WEFT_BENCH_SESSIONS" // how many nodes are connected; 1,50,200
	guardAddress     = "127.0.0.1:9642"
	// monitorRounds is how often a pod comes.
	monitorRounds = 5
)

// BenchmarkMonitors is what the Southbound's server and its guard have to do for many nodes: with nodes that read all,
// for which the server has the same text, and with nodes that read their part, for each of which it looks at its
// conditions. A real ovn-controller says what it monitors. As many synthetic ones then monitor the same of their
// nodes, through the guard. The cluster is that of BenchmarkScale, with as many nodes as the most sessions.
func BenchmarkMonitors(b *testing.B) {
	var r report
	sizes, monitors := numbers(b, sessionsVariable, "1,50,200"), monitorValues(b)
	nodes := max(slices.Max(sizes), 3)
	scenario := scaleScenario(nodes)
	c := &largeCluster{load: large(nodes, sharedNumbers(b))}
	c.begin(b, &r, scenario)
	node := c.startNode(b)
	recorded := map[string]*recording{}
	for _, all := range monitors {
		recorded[all] = c.record(b, node, all)
	}
	node.leave(b)
	c.nodes = nil
	for _, all := range monitors {
		r.add(monitorScenario(scenario, all), "most clauses of a table, at the start", "clauses", float64(recorded[all].most))
		r.add(monitorScenario(scenario, all), "most clauses of a table, then", "clauses", float64(recorded[all].clauses()))
		for _, n := range sizes {
			c.measureSessions(b, &r, monitorScenario(fmt.Sprintf("%d sessions", n), all), recorded[all], n)
		}
	}
	r.publish(b)
	r.print(os.Stdout)
	c.stop(b)
	c.nb.server.stop(b)
}

// recording is what an ovn-controller asks the Southbound for: the tables of its monitor, with their columns and last
// conditions.
type recording struct {
	mutex  sync.Mutex
	ended  bool
	most   int // the most clauses that a table has had
	tables map[string]map[string]json.RawMessage
}

// record runs the first node's ovn-controller through a proxy until it has all flows.
func (c *largeCluster) record(b *testing.B, node *chassis, all string) *recording {
	b.Helper()
	rec := &recording{}
	path := filepath.Join(node.dir, "recorded-"+all+".sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go rec.carry(client, strings.TrimPrefix(c.sb.remote, "unix:"))
		}
	}()
	node.vsctl(b, "--no-wait", "set", "Open_vSwitch", ".", "external_ids:ovn-remote=unix:"+path)
	c.restart(b, node, all)
	rec.mutex.Lock()
	defer rec.mutex.Unlock()
	rec.ended = true
	if len(rec.tables["Logical_Flow"]) == 0 {
		b.Fatalf("ovn-controller monitors no logical flows: %v", rec.tables)
	}
	return rec
}

// carry passes a client's requests on to a server, and notes its monitors.
func (rec *recording) carry(client net.Conn, server string) {
	defer client.Close()
	conn, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(client, conn)
		client.Close()
	}()
	decoder := json.NewDecoder(client)
	for {
		var text json.RawMessage
		if decoder.Decode(&text) != nil {
			return
		}
		rec.note(text)
		if _, err := conn.Write(text); err != nil {
			return
		}
	}
}

func (rec *recording) note(text []byte) {
	var request struct {
		Method string
		Params []json.RawMessage
	}
	if json.Unmarshal(text, &request) != nil || len(request.Params) < 3 {
		return
	}
	begins := request.Method == "monitor_cond_since" && string(request.Params[0]) == `"OVN_Southbound"`
	if !begins && request.Method != "monitor_cond_change" {
		return
	}
	var tables map[string][]map[string]json.RawMessage
	if json.Unmarshal(request.Params[2], &tables) != nil {
		return
	}
	rec.mutex.Lock()
	defer rec.mutex.Unlock()
	if rec.ended {
		return
	}
	if rec.tables == nil || begins {
		rec.tables = map[string]map[string]json.RawMessage{}
	}
	for table, requests := range tables {
		if rec.tables[table] == nil {
			rec.tables[table] = map[string]json.RawMessage{}
		}
		for key, value := range requests[0] {
			rec.tables[table][key] = value
		}
	}
	rec.most = max(rec.most, rec.clauses())
}

// clauses is how many the longest condition has.
func (rec *recording) clauses() int {
	most := 0
	for _, request := range rec.tables {
		var list []json.RawMessage
		if json.Unmarshal(request["where"], &list) == nil {
			most = max(most, len(list))
		}
	}
	return most
}

// requests are what the ovn-controllers of so many nodes ask for, as the first one's has: each of its own chassis,
// switch and routers.
func (c *largeCluster) requests(b *testing.B, rec *recording, nodes int) []string {
	b.Helper()
	text, err := json.Marshal(rec.tables)
	if err != nil {
		b.Fatal(err)
	}
	named := map[string][2]string{} // the UUID and the key of what a node has
	content := c.sb.read(b)
	for uuid, row := range content.Tables["Datapath_Binding"] {
		named["datapath "+row["external_ids"]["name"]] = [2]string{uuid, onlyValue(row["tunnel_key"])}
	}
	for uuid, row := range content.Tables["Chassis"] {
		named["chassis "+onlyValue(row["name"])] = [2]string{uuid, ""}
	}
	var all []string
	for i := range nodes {
		pairs := []string{load.NodeName(0), load.NodeName(i)}
		for name, first := range named {
			own, ok := named[strings.ReplaceAll(name, load.NodeName(0), load.NodeName(i))]
			if !ok || own == first { // what all nodes have, and what a Windows node has not
				continue
			}
			pairs = append(pairs, first[0], own[0], `"dp_key","==",`+first[1]+`]`, `"dp_key","==",`+own[1]+`]`)
		}
		all = append(all, strings.NewReplacer(pairs...).Replace(string(text)))
	}
	return all
}

// onlyValue is the one value of a column.
func onlyValue(value ovsdblog.Value) string {
	for one := range value {
		return one
	}
	return ""
}

// guard is the shipped binary before the Southbound.
type guard struct {
	*process
	authority *pki.Authority
}

func (c *largeCluster) startGuard(b *testing.B) *guard {
	b.Helper()
	authority, err := pki.NewAuthority("nodes")
	if err != nil {
		b.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "guard"})
	if err != nil {
		b.Fatal(err)
	}
	dir := runDir(b, "guard")
	if err := errors.Join(pair.Write(dir, "guard"), authority.Write(dir, "nodes")); err != nil {
		b.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	g := &guard{authority: authority, process: start(b, "weft", dir, filepath.Join(os.Getenv(sandboxDir), "weft"),
		"southbound", "--listen="+guardAddress, "--ovn-southbound="+c.sb.remote, "--certificate="+file("guard.crt"),
		"--private-key="+file("guard.key"), "--node-ca="+file("nodes.crt"), "--metrics-address=")}
	until(b, time.Minute, "the guard listening", g.process, func(context.Context) error {
		conn, err := net.Dial("tcp", guardAddress)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return g
}

// client is how a node connects.
func (g *guard) client(b *testing.B, node string) *tls.Config {
	b.Helper()
	pair, err := g.authority.Issue(pki.Subject{Name: node})
	if err != nil {
		b.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		b.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true}
}

// sessions are synthetic ovn-controllers, which wait for a text from the server.
type sessions struct {
	number   int
	heard    atomic.Int64 // bytes
	failures atomic.Int64
	wanted   atomic.Pointer[string]

	mutex       sync.Mutex
	found       int // sessions that have heard it
	first, last time.Time
	all         chan struct{} // is closed when all have
}

// expect has the sessions wait for another text.
func (s *sessions) expect(text string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.found, s.all = 0, make(chan struct{})
	s.wanted.Store(&text)
}

// hear waits until all sessions have heard the text.
func (s *sessions) hear(b *testing.B, server *process) {
	b.Helper()
	select {
	case <-s.all:
	case <-server.exited:
		b.Fatalf("the Southbound's server is gone\n%s", server.tail())
	case <-time.After(20 * time.Minute):
		s.mutex.Lock()
		defer s.mutex.Unlock()
		b.Fatalf("%d of %d sessions have heard %s", s.found, s.number, *s.wanted.Load())
	}
}

// hears notes that a session has heard a text.
func (s *sessions) hears(text *string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if text != s.wanted.Load() {
		return
	}
	s.last = time.Now()
	if s.found++; s.found == 1 {
		s.first = s.last
	}
	if s.found == s.number {
		close(s.all)
	}
}

// run has a session connect again and again, as ovn-controller does.
func (s *sessions) run(ctx context.Context, i int, config *tls.Config, request string) {
	for ctx.Err() == nil {
		if err := s.connect(ctx, i, config, request); !errors.Is(err, io.EOF) && ctx.Err() == nil {
			s.failures.Add(1)
		}
		select {
		case <-time.After(time.Second): // the least that ovn-controller waits
		case <-ctx.Done():
		}
	}
}

// connect reads until the connection ends: what the node monitors, the answer to an echo with the text that is waited
// for, and what changes.
func (s *sessions) connect(ctx context.Context, i int, config *tls.Config, request string) error {
	dialer := &tls.Dialer{Config: config, NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{
		IP: net.IPv4(127, 1, byte(i/250), byte(i%250+1))}}}
	conn, err := dialer.DialContext(ctx, "tcp", guardAddress)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	request = `{"id":1,"method":"monitor_cond_since","params":["OVN_Southbound","m",` + request +
		`,"00000000-0000-0000-0000-000000000000"]}{"id":` + strconv.Quote(*s.wanted.Load()) + `,"method":"echo","params":[]}`
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	var had *string
	buffer, kept := make([]byte, 64<<10), 0
	for {
		n, err := conn.Read(buffer[kept:])
		s.heard.Add(int64(n))
		wanted := s.wanted.Load()
		if wanted != had && bytes.Contains(buffer[:kept+n], []byte(*wanted)) {
			had = wanted
			s.hears(wanted)
		}
		if err != nil {
			return err
		}
		// The beginning of the text may be at the end of the buffer.
		rest := min(kept+n, len(*wanted)-1)
		copy(buffer, buffer[kept+n-rest:kept+n])
		kept = rest
	}
}

// work is what the Southbound's server and the guard have done, and what sessions have heard, since a moment.
type work struct {
	at            time.Time
	server, guard time.Duration
	heard         int64
}

func (c *largeCluster) worked(b *testing.B, g *guard, s *sessions) work {
	b.Helper()
	return work{time.Now(), c.cpu(b, c.sb.server), c.cpu(b, g.process), s.heard.Load()}
}

// tell reports the work until all sessions have heard, as often as it was done.
func (c *largeCluster) tell(b *testing.B, r *report, scenario, name string, g *guard, s *sessions, from work) {
	b.Helper()
	now := c.worked(b, g, s)
	r.add(scenario, name+", CPU of the server", "s", (now.server - from.server).Seconds())
	r.add(scenario, name+", CPU of the guard", "s", (now.guard - from.guard).Seconds())
	r.add(scenario, name+", heard by each", "kB", float64(now.heard-from.heard)/1e3/float64(s.number))
}

// measureSessions has so many nodes start at the same time, then hear of pods, and come again at the same time after
// the server has started anew. It knows nothing of what they have, so that they read everything again: as from a relay
// that starts, or from a server whose history begins later.
func (c *largeCluster) measureSessions(b *testing.B, r *report, scenario string, rec *recording, number int) {
	b.Helper()
	g := c.startGuard(b) // another one would remember how much these nodes have read, and have them wait
	defer g.stop(b)
	ctx, end := context.WithCancel(b.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	s := &sessions{number: number}
	c.restartSouthbound(b)
	s.expect("all-start")
	from := c.worked(b, g, s)
	for i, request := range c.requests(b, rec, number) {
		config := g.client(b, load.NodeName(i))
		all.Go(func() { s.run(ctx, i, config, request) })
	}
	s.hear(b, c.sb.server)
	const start = "all start at once"
	r.add(scenario, start, "s", s.last.Sub(from.at).Seconds())
	c.tell(b, r, scenario, start, g, s, from)
	for range monitorRounds {
		c.measurePod(b, r, scenario, g, s)
	}
	r.add(scenario, "the server, peak memory until then", "MB", float64(c.sb.server.peak(b))/1e6)
	s.expect("all-again")
	c.replaceServer(b)
	from = c.worked(b, g, s)
	s.hear(b, c.sb.server)
	const again = "all come again to a server that starts"
	r.add(scenario, again, "s", s.last.Sub(c.sb.server.started).Seconds())
	c.tell(b, r, scenario, again, g, s, from)
	r.add(scenario, again+", its peak memory", "MB", float64(c.sb.server.peak(b))/1e6)
	r.add(scenario, "the guard, peak memory", "MB", float64(g.peak(b))/1e6)
	r.add(scenario, "connections that failed", "times", float64(s.failures.Load()))
}

// measurePod has a pod come, until all sessions have heard of all that northd makes of it.
func (c *largeCluster) measurePod(b *testing.B, r *report, scenario string, g *guard, s *sessions) {
	b.Helper()
	c.wait(b, "sb")
	c.members++
	pod := c.load.Member(c.load.SidePolicies()[0].Namespace, fmt.Sprint("member-", c.members))
	number := strings.TrimSpace(run(b, ovnProgram(b, "ovn-nbctl"), "--db="+c.nb.remote, "get", "NB_Global", ".", "nb_cfg"))
	now, err := strconv.Atoi(number)
	if err != nil {
		b.Fatalf("nb_cfg is %q: %v", number, err)
	}
	s.expect(fmt.Sprintf(`"nb_cfg":%d`, now+1)) // which northd writes with the rest
	from := c.worked(b, g, s)
	c.apply(b, pod)
	c.wait(b, "sb")
	s.hear(b, c.sb.server)
	r.add(scenario, "a pod, from the first session that hears of it to the last", "ms",
		float64(s.last.Sub(s.first).Microseconds())/1e3)
	c.tell(b, r, scenario, "a pod", g, s, from)
}

// restartSouthbound has another server begin, and waits for northd.
func (c *largeCluster) restartSouthbound(b *testing.B) {
	b.Helper()
	c.replaceServer(b)
	c.wait(b, "sb")
}

// replaceServer has another server of the Southbound begin with the same file.
func (c *largeCluster) replaceServer(b *testing.B) {
	b.Helper()
	c.sb.server.stop(b)
	*c.sb = *serveDatabase(b, "sb", c.sb.dir, c.sb.file)
}
