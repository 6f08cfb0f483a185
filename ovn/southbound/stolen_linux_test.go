package southbound

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// attacking is the environment variable by which this program becomes stolen nodes: it has the shape of the
// attack, the guard's address, the folder of their certificates, and what of each node is what, see stolen.
const attacking = "WEFT_TEST_ATTACK"

func TestMain(m *testing.M) {
	if said := strings.Split(os.Getenv(attacking), "|"); len(said) == 4 {
		beStolen(said[0], said[1], said[2], strings.Split(said[3], ";"))
		return
	}
	os.Exit(m.Run())
}

// stolenNodes are who may be stolen.
var stolenNodes = []string{"s1", "s2", "s3"}

// stolen is one of them.
type stolen struct {
	address string
	dialer  *net.Dialer // from an address of its own
	config  *tls.Config
	names   *strings.Replacer
}

func newStolen(i int, address, dir, names string) *stolen {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, stolenNodes[i]+".crt"), filepath.Join(dir, stolenNodes[i]+".key"))
	if err != nil {
		panic(err)
	}
	return &stolen{address: address, names: strings.NewReplacer(strings.Split(names, ",")...),
		dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}},
		config: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true,
			ClientSessionCache: tls.NewLRUClientSessionCache(1)}}
}

// beStolen attacks until its standard input ends. It writes a mark when it begins, since the guard may answer no
// round, and a dot for each round that was answered.
func beStolen(shape, address, dir string, names []string) {
	list := attacks()
	a := &list[slices.IndexFunc(list, func(a attack) bool { return a.name == shape })]
	fmt.Print("!")
	for i := range max(a.nodes, 1) {
		s := newStolen(i, address, dir, names[i])
		for part := a; part != nil; part = part.beside {
			for range part.connections {
				go func() {
					for n := 0; ; n++ {
						part.connection(n, s)
					}
				}()
			}
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// connection attacks by one, the n-th, until the guard ends it.
func (a *attack) connection(n int, s *stolen) {
	if a.raw != nil {
		a.raw(n, s)
		return
	}
	conn, err := tls.DialWithDialer(s.dialer, "tcp", s.address, s.config)
	if err != nil {
		return
	}
	defer conn.Close()
	h := &hearing{from: conn}
	if a.hears == hearsSlowly {
		h.from = &slow{from: conn}
	}
	round := func(requests []string) bool {
		text := s.names.Replace(strings.ReplaceAll(strings.Join(requests, ""), "{last}", h.last))
		go func() { _, _ = io.WriteString(conn, text) }()
		for range requests {
			if a.hears == hearsNothing {
				<-time.After(stall) // by then the guard has ended it
				return false
			}
			if h.answer() != nil {
				return false
			}
		}
		fmt.Print(".")
		return true
	}
	if a.requests == nil && a.stays == nil {
		round([]string{call("echo", `[]`)})
		return
	}
	if len(a.stays) > 0 && !round(a.stays) {
		return
	}
	if a.requests == nil {
		if a.hears == hearsNoLater {
			<-time.After(2 * stall)
			return
		}
		_ = h.answer()
		return
	}
	for n := 0; round(a.requests(n)); n++ {
	}
}

// hang shows no certificate: it says nothing, or the beginning of a handshake.
func hang(n int, s *stolen) {
	conn, err := s.dialer.Dial("tcp", s.address)
	if err != nil {
		return
	}
	defer conn.Close()
	if n%2 == 0 {
		_, _ = io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
	}
	_, _ = io.Copy(io.Discard, conn)
	fmt.Print(".")
}

// garbage shows its certificate, and then says what is no request, or none that ends.
func garbage(n int, s *stolen) {
	conn, err := tls.DialWithDialer(s.dialer, "tcp", s.address, s.config)
	if err != nil {
		return
	}
	defer conn.Close()
	piece := []string{"\x00\xff garbage ", `]`, `[`, `{"id":"`, " "}[n%5]
	go func() { _, _ = io.WriteString(conn, strings.Repeat(piece, 2*longestRequest/len(piece))) }()
	_, _ = io.Copy(io.Discard, conn)
	fmt.Print(".")
}

// slow reads as fast as the guard asks for.
type slow struct{ from io.Reader }

func (s *slow) Read(p []byte) (int, error) {
	const part = 16 << 10
	<-time.After(part * time.Second / slowest)
	return s.from.Read(p[:min(len(p), part)])
}

// steal has a process of its own attack the guard at an address. rounds are how many were answered so far; stop
// ends it.
func (g *gate) steal(shape, address string) (rounds *atomic.Int64, stop func()) {
	program, err := os.Executable()
	if err != nil {
		g.Fatal(err)
	}
	dir := g.TempDir()
	var names []string
	for _, node := range stolenNodes {
		pair := g.nodes.sign(node)
		g.nodes.write(filepath.Join(dir, node+".crt"), "CERTIFICATE", pair.Certificate[0])
		g.nodes.writeKey(filepath.Join(dir, node+".key"), pair)
		names = append(names, g.rowsOf(node))
	}
	command := exec.Command(program)
	said := strings.Join([]string{shape, address, dir, strings.Join(names, ";")}, "|")
	command.Env = append(os.Environ(), attacking+"="+said)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		g.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		g.Fatal(err)
	}
	if err := command.Start(); err != nil {
		g.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(stdout, first); err != nil {
		g.Fatal(err)
	}
	rounds = &atomic.Int64{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for buffer := make([]byte, 1<<10); ; {
			n, err := stdout.Read(buffer)
			rounds.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return rounds, func() {
		stdin.Close()
		<-ended
		_ = command.Wait()
	}
}

// hearing reads what a server says, however much.
type hearing struct {
	from    io.Reader
	buffer  [64 << 10]byte
	pending []byte
	frames  frames
	head    []byte // of the message that is under way
	last    string // transaction that the server has told of
}

// lastTransaction is in an answer to monitor_cond_since.
var lastTransaction = regexp.MustCompile(`"result":\[(?:true|false),"([-0-9a-f]{36})"`)

// answer comes to the end of the next answer. What is said before of rows is left out.
func (h *hearing) answer() error {
	for {
		for len(h.pending) > 0 {
			n, ends := h.frames.next(h.pending)
			if room := 200 - len(h.head); room > 0 {
				h.head = append(h.head, h.pending[:min(n, room)]...)
			}
			h.pending = h.pending[n:]
			if !ends {
				continue
			}
			if found := lastTransaction.FindSubmatch(h.head); found != nil {
				h.last = string(found[1])
			}
			h.head = h.head[:0]
			if h.frames.answer {
				return nil
			}
		}
		n, err := h.from.Read(h.buffer[:])
		if h.pending = h.buffer[:n]; n == 0 && err != nil {
			return err
		}
	}
}
