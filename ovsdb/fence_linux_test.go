package ovsdb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// northboundFence is a fence that a writer may always claim.
func northboundFence(writer string) ovsdb.Fence {
	return ovsdb.Fence{Table: "NB_Global", Key: "weft.net/leader", Writer: writer, Entitled: func(context.Context) error {
		return nil
	}}
}

// writer is another engine at the stage's database.
func (s *stage) writer(edit func(*ovsdb.Config)) *ovsdb.Engine {
	s.Helper()
	config := ovsdb.Config{Endpoints: s.endpoint, Model: s.db.Model, Tables: tables}
	if edit != nil {
		edit(&config)
	}
	return ovsdb.NewEngine(ovsdbtest.ConnectWith(s, config))
}

func (s *stage) claim(e *ovsdb.Engine, writer string) {
	s.Helper()
	if err := e.Claim(s.context(), northboundFence(writer)); err != nil {
		s.Fatal(err)
	}
}

// clusterStage has a cluster of three, and knows all its members.
func clusterStage(t *testing.T) (*stage, []*ovsdbtest.Process) {
	s := realStage(t)
	members := ovsdbtest.Cluster(t, s.db, 3)
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.Endpoint)
	}
	s.endpoint = strings.Join(endpoints, ",")
	return s, members
}

// servers run a story against a server alone and against a cluster.
func servers(t *testing.T, story func(t *testing.T, s *stage)) {
	t.Run("standalone", func(t *testing.T) {
		s := realStage(t)
		s.server = ovsdbtest.Server(t, s.db)
		s.endpoint = s.server.Endpoint
		story(t, s)
	})
	t.Run("cluster", func(t *testing.T) {
		s, _ := clusterStage(t)
		story(t, s)
	})
}

func TestAClaimEndsTheFormerWriter(t *testing.T) {
	servers(t, func(t *testing.T, s *stage) {
		first, second := s.writer(nil), s.writer(nil)
		if err := second.Apply(s.context(), []ovsdb.Change{addressSet("before")}); err != nil {
			t.Errorf("an engine without a fence: %v", err)
		}
		s.engine = second
		s.claim(first, "first")
		if err := first.Replace(s.context(), manyPods(600)); err != nil {
			t.Fatal(err)
		}
		// What the former writer has committed is in the replica at once, so the next one compares with it.
		s.claim(second, "second")
		if n := strings.Count(ovsdb.Dump(second.Client()), "Logical_Switch_Port "); n != 600 {
			t.Errorf("after the claim the replica has %d ports instead of 600", n)
		}
		if err := second.Replace(s.context(), []ovsdb.Change{node("l1")}); err != nil {
			t.Fatal(err)
		}
		want := ovsdb.Dump(second.Client())
		for _, changes := range [][]ovsdb.Change{{addressSet("late")}, {node("l2")}} {
			if err := first.Apply(s.context(), changes); !errors.Is(err, ovsdb.ErrFenced) {
				t.Errorf("the former writer's work ends with %v", err)
			}
		}
		if err := first.Replace(s.context(), manyPods(600)); !errors.Is(err, ovsdb.ErrFenced) {
			t.Errorf("the former writer's work ends with %v", err)
		}
		s.dump(want)
		// It may come back, by another claim.
		s.claim(first, "first")
		if err := first.Replace(s.context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := second.Apply(s.context(), []ovsdb.Change{addressSet("again")}); !errors.Is(err, ovsdb.ErrFenced) {
			t.Errorf("now the other one is fenced off, and its work ends with %v", err)
		}
		// Somebody removes the value: nobody may write until it is claimed.
		ovsdbtest.Run(t, "ovn-nbctl", "--db="+first.Client().Endpoint(), "remove", "NB_Global", ".", "external_ids",
			"weft.net/leader")
		if err := first.Apply(s.context(), []ovsdb.Change{node("l1")}); !errors.Is(err, ovsdb.ErrFenced) {
			t.Errorf("without a value work ends with %v", err)
		}
	})
}

// TestAClaimWritesOnce, and leaves the other external_ids alone.
func TestAClaimWritesOnce(t *testing.T) {
	s := realStage(t)
	s.start()
	before := s.transactions()
	s.claim(s.engine, "first")
	s.claim(s.engine, "first")
	if n := s.transactions() - before; n != 1 {
		t.Errorf("%d transactions for a claim and its repetition", n)
	}
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+s.endpoint, "set", "NB_Global", ".", "external_ids:theirs=kept")
	s.claim(s.writer(nil), "second")
	ids := ovsdbtest.Run(t, "ovn-nbctl", "--db="+s.endpoint, "get", "NB_Global", ".", "external_ids")
	if !strings.Contains(ids, "theirs=kept") || !strings.Contains(ids, `weft.net/leader"="second/`) {
		t.Errorf("the external_ids are %s", ids)
	}
}

// TestOnlyTheEntitledClaim: who was entitled when it looked and is no longer when it writes does not get the fence.
func TestOnlyTheEntitledClaim(t *testing.T) {
	servers(t, func(t *testing.T, s *stage) {
		first, second := s.writer(nil), s.writer(nil)
		not := errors.New("the Lease is another's")
		slow := northboundFence("first")
		asked := 0
		slow.Entitled = func(context.Context) error {
			if asked++; asked > 1 {
				return not
			}
			s.claim(second, "second") // it became the leader right after this answer
			return nil
		}
		if err := first.Claim(s.context(), slow); !errors.Is(err, not) || asked != 2 {
			t.Errorf("the late claim ends with %v, asked %d times", err, asked)
		}
		if err := first.Apply(s.context(), []ovsdb.Change{node("l1")}); !errors.Is(err, ovsdb.ErrFenced) {
			t.Errorf("without the fence work ends with %v", err)
		}
		if err := second.Apply(s.context(), []ovsdb.Change{node("l1")}); err != nil {
			t.Error(err)
		}
	})
}

// held is a connection whose writes can be held back, as a network would.
type held struct {
	net.Conn
	mu      *sync.RWMutex // locked while nothing may be written
	waiting chan struct{}
}

func (h held) Write(b []byte) (int, error) {
	if !h.mu.TryRLock() {
		select {
		case h.waiting <- struct{}{}:
		default:
		}
		h.mu.RLock()
	}
	defer h.mu.RUnlock()
	return h.Conn.Write(b)
}

// TestALateTransactionIsRefused: it left the former writer before the claim and comes to the server after it.
func TestALateTransactionIsRefused(t *testing.T) {
	servers(t, func(t *testing.T, s *stage) {
		var line sync.RWMutex
		waiting := make(chan struct{}, 1)
		first := s.writer(func(c *ovsdb.Config) {
			c.Dial = func(ctx context.Context, e ovsdb.Endpoint) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, "unix", e.Address)
				return held{conn, &line, waiting}, err
			}
		})
		second := s.writer(nil)
		s.engine = second
		s.claim(first, "first")
		if err := first.Replace(s.context(), []ovsdb.Change{node("l1")}); err != nil {
			t.Fatal(err)
		}
		line.Lock()
		answer := make(chan error, 1)
		go func() { answer <- first.Apply(s.context(), []ovsdb.Change{pod("late", "l1", "10.244.1.3")}) }()
		<-waiting
		s.claim(second, "second")
		if err := second.Replace(s.context(), []ovsdb.Change{node("l1"), pod("new", "l1", "10.244.1.3")}); err != nil {
			t.Fatal(err)
		}
		want := ovsdb.Dump(second.Client())
		line.Unlock()
		if err := <-answer; !errors.Is(err, ovsdb.ErrFenced) {
			t.Errorf("the late transaction ends with %v", err)
		}
		s.dump(want)
	})
}

// locked asks a member by itself for a lock, and gives the connection that has it.
func locked(t *testing.T, member *ovsdbtest.Process) (net.Conn, string) {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(member.Endpoint, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, `{"id":"lock","method":"lock","params":["writer"]}`)
	answer := make([]byte, 512)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return conn, string(answer[:n])
}

// TestLocksAreNoFence is why there is another one: in a cluster the same lock has several owners, and what asserts it
// is taken by a member that leads no longer.
func TestLocksAreNoFence(t *testing.T) {
	s, members := clusterStage(t)
	s.restart()
	var stale net.Conn
	for _, m := range members {
		conn, answer := locked(t, m)
		if !strings.Contains(answer, `"locked":true`) {
			t.Fatalf("%s gives %s; ovsdb-server's locks have changed, and may be a fence now", m.Endpoint, answer)
		}
		if m != ovsdbtest.Leader(s, s.db, members) {
			stale = conn
		}
	}
	fmt.Fprint(stale, `{"id":"late","method":"transact","params":["OVN_Northbound",{"op":"assert","lock":"writer"},`+
		`{"op":"insert","table":"Address_Set","row":{"name":"written-beside-another-owner"}}]}`)
	s.eventually("a follower has taken what asserts its own lock", func() bool {
		return strings.Contains(ovsdb.Dump(s.engine.Client()), "written-beside-another-owner")
	})
}

// TestAFormerLeaderOfTheClusterIsLeft: the transaction lies with a member that was stopped while it led, and that
// passes it on to the new leader when it wakes up.
func TestAFormerLeaderOfTheClusterIsLeft(t *testing.T) {
	s, members := clusterStage(t)
	first := s.writer(nil)
	s.claim(first, "first")
	s.again(func() error { return first.Replace(s.context(), []ovsdb.Change{node("l1")}) })
	var leader *ovsdbtest.Process
	s.eventually("the writer is at the leader", func() bool {
		leader = ovsdbtest.Leader(s, s.db, members)
		return first.Client().Endpoint() == leader.Endpoint
	})
	leader.Pause()
	resume := sync.OnceFunc(leader.Resume)
	defer resume()
	// Its bytes are in the stopped member's socket, and its writer dies of it, as with its machine.
	dead, kill := context.WithCancel(s.context())
	answer := make(chan error, 1)
	go func() { answer <- first.Apply(dead, []ovsdb.Change{pod("late", "l1", "10.244.1.3")}) }()
	late, err := net.Dial("unix", strings.TrimPrefix(leader.Endpoint, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	// One that keeps its connection whatever happens, with the fence of the first: this is what is judged.
	fence := s.fenceValue(members, leader)
	fmt.Fprintf(late, `{"id":"late","method":"transact","params":["OVN_Northbound",{"op":"wait","timeout":0,"until":"!=","rows":[],`+
		`"columns":["external_ids"],"table":"NB_Global","where":[["external_ids","includes",["map",[["weft.net/leader",%q]]]]]},`+
		`{"op":"insert","table":"Address_Set","row":{"name":"late"}}]}`, fence)

	s.endpoint = ""
	for _, m := range members {
		if m != leader {
			s.endpoint = strings.TrimPrefix(s.endpoint+","+m.Endpoint, ",")
		}
	}
	second := s.writer(nil) // waits for the others' election
	s.engine = second
	s.claim(second, "second")
	s.again(func() error { return second.Replace(s.context(), []ovsdb.Change{node("l1")}) })
	want := ovsdb.Dump(second.Client())
	resume()
	if err := late.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		// The answer ends with its request's id, whatever it says.
		text, err := "", error(nil)
		for reply := bufio.NewReader(late); err == nil && !strings.Contains(text, `"late"`); {
			var more string
			more, err = reply.ReadString('}')
			text += more
		}
		answered <- fmt.Sprint(text, err)
	}()
	// A member that has lost its leadership amid a transaction tries it again at the database's next change
	// (ovsdb_trigger_run), so a set comes and goes meanwhile.
	set := addressSet("comes-and-goes")
	without := ovsdb.Change{Owner: set.Owner}
	s.eventually("the stopped member has answered", func() bool {
		for _, change := range []ovsdb.Change{set, without} {
			s.again(func() error { return second.Apply(s.context(), []ovsdb.Change{change}) })
		}
		select {
		case text := <-answered:
			if !strings.Contains(text, "timed out") {
				t.Errorf("the stopped member answers %q", text)
			}
			return true
		default:
			return false
		}
	})
	kill()
	<-answer
	s.dump(want)
}

// fenceValue reads the value that is in force from a member that answers.
func (s *stage) fenceValue(members []*ovsdbtest.Process, except *ovsdbtest.Process) string {
	s.Helper()
	for _, m := range members {
		if m != except {
			return strings.Trim(strings.TrimSpace(ovsdbtest.Run(s, "ovn-nbctl", "--no-leader-only", "--db="+m.Endpoint,
				"get", "NB_Global", ".", "external_ids:weft.net/leader")), `"`)
		}
	}
	return ""
}

// TestASuspendedWriterIsRefused: a process is stopped, wherever it is amid its work, and goes on after another one
// has claimed the database.
func TestASuspendedWriterIsRefused(t *testing.T) {
	servers(t, func(t *testing.T, s *stage) {
		s.engine = s.writer(nil)
		for round := range 4 {
			child := exec.Command(os.Args[0], "-test.run=^TestSuspendedWriterProcess$", "-test.v")
			child.Env = append(os.Environ(), "WEFT_SUSPENDED_WRITER="+s.endpoint)
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			child.Stderr = child.Stdout
			child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), "writes") {
			}
			s.eventually("the child is amid its work", func() bool {
				return strings.Count(ovsdb.Dump(s.engine.Client()), "Logical_Switch_Port ") > 100*(round+1)
			})
			child.Process.Signal(syscall.SIGSTOP)
			s.claim(s.engine, "parent")
			if err := s.engine.Replace(s.context(), []ovsdb.Change{node("l1")}); err != nil {
				t.Fatal(err)
			}
			want := ovsdb.Dump(s.engine.Client())
			child.Process.Signal(syscall.SIGCONT)
			fenced := false
			for lines.Scan() {
				fenced = fenced || strings.Contains(lines.Text(), "fenced off")
			}
			child.Wait()
			if !fenced {
				t.Error("the child's work was not refused")
			}
			s.dump(want)
		}
	})
}

// TestSuspendedWriterProcess is the child of TestASuspendedWriterIsRefused: it writes until it may not.
func TestSuspendedWriterProcess(t *testing.T) {
	endpoint := os.Getenv("WEFT_SUSPENDED_WRITER")
	if endpoint == "" {
		t.Skip("runs as a child of TestASuspendedWriterIsRefused alone")
	}
	s := realStage(t)
	s.endpoint = endpoint
	e := s.writer(nil)
	s.claim(e, "child")
	fmt.Println("writes")
	ctx := s.context()
	if err := e.Replace(ctx, []ovsdb.Change{node("l1")}); err != nil {
		fmt.Println(err)
	}
	for i := 0; ; i++ {
		err := e.Apply(ctx, []ovsdb.Change{pod(fmt.Sprint("p", i), "l1", "10.244.1.3")})
		if errors.Is(err, ovsdb.ErrFenced) {
			fmt.Println("fenced off")
			return
		}
		if err != nil && !errors.Is(err, ovsdb.ErrDisconnected) {
			fmt.Println(err)
			return
		}
	}
}
