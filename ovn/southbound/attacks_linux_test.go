package southbound

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// attack is what a stolen node does on each of so many connections, again and again. It goes on with a new one when the guard has ended one.
type attack struct {
	name        string
	connections int
	// requests are of the n-th round, whose answers come before the next round. A nil one begins and ends with a connection.
	requests func(n int) []string
	// stays is what the node has asked for once, before.
	stays []string
}

// costly are conditions of all tables that have any, as many as there may be, of the clauses that cost the server most.
func costly(n int) string {
	var tables []string
	for _, table := range []struct{ name, clause string }{
		{"DNS", `["datapaths","includes",["uuid","00000000-0000-4000-8000-%012d"]]`},
		{"Logical_Flow", `["logical_datapath","==",["uuid","00000000-0000-4000-8000-%012d"]]`},
		{"MAC_Binding", `["datapath","==",["uuid","00000000-0000-4000-8000-%012d"]]`},
		{"Port_Binding", `["options","includes",["map",[["requested-chassis","nobody%d"]]]]`},
	} {
		var clauses []string
		for i := range maxClauses {
			clauses = append(clauses, fmt.Sprintf(table.clause, n*maxClauses+i))
		}
		if table.name == "Logical_Flow" { // with which no hash helps; a flow of any group would be told
			clauses[0] = `["logical_dp_group","!=",["set",[]]]`
		}
		tables = append(tables, fmt.Sprintf("%q:[{\"where\":[%s]}]", table.name, strings.Join(clauses, ",")))
	}
	return "{" + strings.Join(tables, ",") + "}"
}

// call is a request.
func call(method, params string) string {
	return fmt.Sprintf(`{"id":0,"method":%q,"params":%s}`, method, params)
}

// reads are monitors of what there is most of, by one of the methods.
func reads(method, more string) func(n int) []string {
	return func(n int) []string {
		return []string{
			call(method, fmt.Sprintf(`["OVN_Southbound",%d,{"Address_Set":[{}],"Logical_Flow":[{}],"Port_Binding":[{}]}%s]`, n, more)),
			call("monitor_cancel", fmt.Sprintf(`[%d]`, n)),
		}
	}
}

const (
	insertAddress = `{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":2,"mac":"0a:00:00:00:%02x:%02x"}}`
	foreignPort   = `{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","00000000-0000-4000-8000-000000000000"]]],"row":{"mac":"m"}}`
)

// transactions are inserts that come to nothing, by what comes after them.
func transactions(operations int, end string) func(n int) []string {
	return func(int) []string {
		list := []string{`"OVN_Southbound"`}
		for i := range operations {
			list = append(list, fmt.Sprintf(insertAddress, i>>8, i&255))
		}
		return []string{call("transact", "["+strings.Join(append(list, end), ",")+"]")}
	}
}

func attacks() []attack {
	large := `["OVN_Southbound",{"op":"comment","comment":"` + strings.Repeat("x", longestRequest-(4<<10)) + `"},` + foreignPort + `]`
	wrong := strings.TrimSuffix(strings.Repeat(`["datapath","==",["uuid","00000000-0000-4000-8000-000000000000"]],`, 90_000), ",")
	echoes := slices.Repeat([]string{call("echo", `[]`)}, 100)
	var monitors []string
	for i := range maxMonitors {
		monitors = append(monitors, call("monitor_cond_since", fmt.Sprintf(`["OVN_Southbound",%d,%s,"00000000-0000-0000-0000-000000000000"]`, i, costly(i))))
	}
	return []attack{
		{name: "selects of whole tables", connections: clientsEach, requests: func(int) []string {
			return []string{call("transact", `["OVN_Southbound",`+strings.TrimSuffix(strings.Repeat(`{"op":"select","table":"Address_Set","where":[]},`, 4), ",")+`]`)}
		}},
		{name: "monitor", connections: clientsEach, requests: reads("monitor", "")},
		{name: "monitor_cond", connections: clientsEach, requests: reads("monitor_cond", "")},
		{name: "monitor_cond_since", connections: clientsEach, requests: reads("monitor_cond_since", `,"00000000-0000-0000-0000-000000000000"`)},
		{name: "monitor, after what nobody waits for", connections: clientsEach, requests: func(n int) []string {
			return append([]string{call("", `[]`)}, reads("monitor", "")(n)...)
		}},
		{name: "costly conditions", connections: maxMonitors, requests: func(n int) []string {
			return []string{call("monitor_cond", fmt.Sprintf(`["OVN_Southbound",%d,%s]`, n, costly(n))), call("monitor_cancel", fmt.Sprintf(`[%d]`, n))}
		}},
		{name: "costly conditions that stay", connections: 1, stays: monitors},
		{name: "condition changes", connections: maxMonitors,
			stays: []string{call("monitor_cond", `["OVN_Southbound",0,{"DNS":[{"where":[false]}],"Logical_Flow":[{"where":[false]}],"MAC_Binding":[{"where":[false]}],"Port_Binding":[{"where":[false]}]}]`)},
			requests: func(n int) []string {
				return []string{call("monitor_cond_change", `[0,0,`+costly(n)+`]`),
					call("monitor_cond_change", `[0,0,{"Logical_Flow":[{"where":[true]}],"Port_Binding":[{"where":[true]}]}]`)}
			}},
		{name: "large conditions that are refused", connections: clientsEach, requests: func(n int) []string {
			return []string{call("monitor_cond", `["OVN_Southbound",0,{"MAC_Binding":[{"where":[`+wrong+`,["mac","!=","m"]]}]}]`)}
		}},
		{name: "large transactions that are refused", connections: clientsEach, requests: func(int) []string { return []string{call("transact", large)} }},
		{name: "long transactions that are refused", connections: clientsEach, requests: transactions(maxOperations-1, foreignPort)},
		{name: "long transactions that the server ends", connections: clientsEach, requests: transactions(maxOperations-1, `{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":2,"mac":7}}`)},
		{name: "echoes", connections: clientsEach, requests: func(int) []string { return echoes }},
		{name: "connections", connections: clientsEach},
	}
}

// attacking is the environment variable by which this program becomes a stolen node: it has the shape, the guard's address and the certificate.
const attacking = "WEFT_TEST_ATTACK"

func TestMain(m *testing.M) {
	if words := strings.Split(os.Getenv(attacking), "|"); len(words) == 4 {
		beStolen(words[0], words[1], words[2], words[3])
		return
	}
	os.Exit(m.Run())
}

// beStolen attacks until its standard input ends. It writes a mark when it begins, since the guard may answer no round, and a dot
// for each round that was answered.
func beStolen(shape, address, certificate, key string) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		panic(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	list := attacks()
	a := list[slices.IndexFunc(list, func(a attack) bool { return a.name == shape })]
	fmt.Print("!")
	for range a.connections {
		go func() {
			for {
				a.connection(address, config)
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// connection attacks by one, until the guard ends it.
func (a *attack) connection(address string, config *tls.Config) {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return
	}
	defer conn.Close()
	h := &hearing{from: conn}
	round := func(requests []string) bool {
		go func() { _, _ = io.WriteString(conn, strings.Join(requests, "")) }()
		for range requests {
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
	for n := 0; ; n++ {
		if a.requests == nil {
			_ = h.answer()
			return
		}
		if !round(a.requests(n)) {
			return
		}
	}
}

// steal has a process of its own attack; stop says how many rounds were answered.
func (g *gate) steal(shape, certificate, key string) (stop func() int) {
	program, err := os.Executable()
	if err != nil {
		g.Fatal(err)
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), attacking+"="+strings.Join([]string{shape, g.address, certificate, key}, "|"))
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
	rounds := make(chan int)
	go func() {
		n, _ := io.Copy(io.Discard, stdout)
		rounds <- int(n)
	}()
	return func() int {
		stdin.Close()
		defer func() { _ = command.Wait() }()
		return <-rounds
	}
}

// hearing reads what a server says, however much.
type hearing struct {
	from    io.Reader
	buffer  [64 << 10]byte
	pending []byte
	frames  frames
}

// answer comes to the end of the next answer. What is said before of rows is left out.
func (h *hearing) answer() error {
	for {
		for len(h.pending) > 0 {
			n, ends := h.frames.next(h.pending)
			h.pending = h.pending[n:]
			if ends && h.frames.answer {
				return nil
			}
		}
		n, err := h.from.Read(h.buffer[:])
		if h.pending = h.buffer[:n]; n == 0 && err != nil {
			return err
		}
	}
}
