package acl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// microflow writes a packet for ovn-trace.
func microflow(p Packet) string {
	terms := []string{fmt.Sprintf("inport == %q", p.Inport)}
	add := func(format string, args ...any) { terms = append(terms, fmt.Sprintf(format, args...)) }
	if len(p.EthSrc) > 0 {
		add("eth.src == %s && eth.dst == %s", p.EthSrc, p.EthDst)
	}
	family := "ip4"
	switch {
	case p.ARP:
		add("arp")
		return strings.Join(terms, " && ")
	case p.is6():
		family = "ip6"
	}
	add("%s.src == %s && %s.dst == %s", family, p.Src, family, p.Dst)
	switch p.Proto {
	case ICMP, ICMPv6:
		add("icmp%c.type == %d && icmp%c.code == %d", family[2], p.ICMPType, family[2], p.ICMPCode)
	default:
		name := map[uint8]string{TCP: "tcp", UDP: "udp", SCTP: "sctp"}[p.Proto]
		add("%s.src == %d && %s.dst == %d", name, p.SrcPort, name, p.DstPort)
	}
	if discovery(&p) {
		add("ip.ttl == 255")
	} else {
		add("ip.ttl == 64")
	}
	return strings.Join(terms, " && ")
}

// evaluator is a Southbound with one datapath, whose logical flows are matches to evaluate. A packet goes
// through its tables round by round, one more match in each table of each round; what matches sets reg1
// to the match's number.
type evaluator struct {
	t       *testing.T
	server  *ovsdbtest.Process
	matches []string
	// warnings are what OVN says of matches that it cannot read.
	warnings string
}

// perRound is how many of a pipeline's 30 tables hold matches: not the first and not the last.
const perRound = 28

func newEvaluator(t *testing.T, sets map[string][]string, matches []string) *evaluator {
	e := &evaluator{t: t, server: ovsdbtest.Server(t, ovsdbtest.Southbound(t)), matches: matches}
	type object = map[string]any
	var operations []any
	insert := func(table string, row object) {
		operations = append(operations, object{"op": "insert", "table": table, "row": row, "uuid": uuid.NewString()})
	}
	insert("Datapath_Binding", object{"tunnel_key": 1, "external_ids": []any{"map", [][]string{{"name", "dp"}}}})
	datapath := []any{"uuid", operations[0].(object)["uuid"]}
	for name, addresses := range sets {
		insert("Address_Set", object{"name": name, "addresses": []any{"set", addresses}})
	}
	for key, port := range []string{"a", "b", "c", "d"} {
		insert("Port_Binding", object{"datapath": datapath, "logical_port": port, "tunnel_key": key + 1})
	}
	insert("Port_Group", object{"name": "1_ab", "ports": []any{"set", []string{"a", "b"}}})
	insert("Port_Group", object{"name": "1_cd", "ports": []any{"set", []string{"c", "d"}}})
	flow := func(table, priority int, match, actions string) {
		insert("Logical_Flow", object{"logical_datapath": datapath, "pipeline": "ingress", "table_id": table,
			"priority": priority, "match": match, "actions": actions})
	}
	flow(0, 1, `inport == "a"`, `outport = "b"; next;`)
	flow(0, 0, `inport == "c"`, `outport = "d"; next;`)
	for table := range perRound {
		flow(table+1, 0, "1", "next;")
	}
	flow(perRound+1, 0, "1", "reg2 = 1;") // the end
	for i, match := range matches {
		round, table := i/perRound, i%perRound+1
		flow(table, 1, e.inRound(round, match), fmt.Sprintf("reg1 = %d; next;", i))
		if table == perRound {
			flow(table+1, 1, fmt.Sprintf("reg0 == %d", round), fmt.Sprintf("reg0 = %d; next(pipeline=ingress, table=1);",
				round+1))
		}
	}
	for part := range slices.Chunk(operations, 200) { // an argument's length is limited
		request, err := json.Marshal(append([]any{"OVN_Southbound"}, part...))
		if err != nil {
			t.Fatal(err)
		}
		if answer := ovsdbtest.Run(t, "ovsdb-client", "transact", e.server.Endpoint, string(request)); strings.Contains(
			answer, `"error"`) {
			t.Fatal(answer)
		}
	}
	return e
}

func (e *evaluator) inRound(round int, match string) string {
	return fmt.Sprintf("reg0 == %d && (%s)", round, match)
}

var number1 = regexp.MustCompile(`reg1 = (\d+);`)

// matched says which matches hold for a packet.
func (e *evaluator) matched(p Packet) []bool {
	e.t.Helper()
	log := filepath.Join(e.t.TempDir(), "log")
	trace := ovsdbtest.Run(e.t, "ovn-trace", "-vconsole:off", "-vsyslog:off", "-vfile:warn", "--log-file="+log,
		"--no-friendly-names", "--db="+e.server.Endpoint, "dp", microflow(p))
	if rounds := len(e.matches) / perRound; !strings.Contains(trace, fmt.Sprintf("reg0 = %d;", rounds)) ||
		!strings.Contains(trace, "reg2 = 1;") {
		e.t.Fatalf("%s did not go through %d rounds:\n%s", microflow(p), rounds, trace)
	}
	results := make([]bool, len(e.matches))
	for _, found := range number1.FindAllStringSubmatch(trace, -1) {
		i, err := strconv.Atoi(found[1])
		if err != nil {
			e.t.Fatal(err)
		}
		results[i] = true
	}
	text, err := os.ReadFile(log)
	if err != nil {
		e.t.Fatal(err)
	}
	e.warnings = string(text)
	return results
}

// refused says whether OVN could not read a match.
func (e *evaluator) refused(i int) bool {
	return strings.Contains(e.warnings, "|"+e.inRound(i/perRound, e.matches[i])+": parsing expression failed")
}

// TestEvaluatesAsOVN compares what this package reads, and how it evaluates it, with OVN.
func TestEvaluatesAsOVN(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := &generator{rand.New(rand.NewPCG(seed, 0))}
	var matches []string
	for _, c := range meanings {
		matches = append(matches, c.match)
	}
	for _, c := range refusals {
		matches = append(matches, c.match)
	}
	matches = append(matches, unsupported...)
	for range 1000 {
		matches = append(matches, g.expression(3))
	}
	e := newEvaluator(t, map[string][]string{
		"pods_ip4": {"10.244.0.3", "10.244.9.9", "192.0.2.0/28"}, "pods_ip6": {"fd00::3"}, "empty": {},
		"mixed": {"10.244.0.3", "fd00::3"}, "macs": {"0a:58:0a:f4:00:03"}, "ports": {"80", "53"},
	}, matches)
	env := environment(t)
	wrong, accepted := 0, 0
	for _, p := range packets {
		if len(p.EthSrc) == 0 {
			p.EthSrc, p.EthDst = web.EthDst, web.EthSrc // OVN's packets have some
		}
		p.Outport = map[string]string{"a": "b", "c": "d"}[p.Inport]
		for i, want := range e.matched(p) {
			m, err := Parse(matches[i])
			unsupported := errors.Is(err, ErrUnsupported)
			if err == nil {
				err = m.Check(env)
			}
			if (err != nil && !unsupported) != e.refused(i) {
				t.Errorf("%s: error %v; OVN refuses it: %t", matches[i], err, e.refused(i))
				wrong++
			}
			if err == nil {
				accepted++
				if got := m.Matches(p, env); got != want {
					t.Errorf("%s: %t, in OVN %t, on %s", matches[i], got, want, microflow(p))
					wrong++
				}
			}
			if wrong > 20 {
				t.FailNow()
			}
		}
	}
	if accepted < len(packets)*len(matches)/3 {
		t.Errorf("%d of %d evaluations were of matches that can be read; too few to tell", accepted,
			len(packets)*len(matches))
	}
}

// generator makes up matches, most of which OVN reads.
type generator struct{ *rand.Rand }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) expression(depth int) string {
	operator := pick(g, " && ", " || ")
	text := g.term(depth)
	for range g.IntN(3) {
		if g.IntN(40) == 0 {
			operator = pick(g, " && ", " || ")
		}
		text += operator + g.term(depth)
	}
	return text
}

func (g *generator) term(depth int) string {
	switch n := g.IntN(10); {
	case depth > 0 && n < 3:
		return "(" + g.expression(depth-1) + ")"
	case depth > 0 && n < 4:
		return "!(" + g.negatable(depth-1) + ")"
	case n < 6:
		return pick(g, "ip", "ip4", "ip6", "arp", "nd", "icmp", "icmp4", "icmp6", "tcp", "udp", "sctp", "1", "0", "!1",
			"tcp == 1", "udp != 0", "!tcp", "nd_ns")
	}
	return g.comparison()
}

// negatable mentions what may be negated, most of the time.
func (g *generator) negatable(depth int) string {
	text := g.numeric()
	for range g.IntN(3) {
		text += " && " + g.numeric()
	}
	if depth > 0 && g.IntN(3) == 0 {
		text = "!(" + g.expression(depth-1) + ") || (" + text + ")"
	}
	if g.IntN(20) == 0 {
		text = g.expression(depth)
	}
	return text
}

func (g *generator) comparison() string {
	if g.IntN(3) > 0 {
		return g.numeric()
	}
	switch g.IntN(3) {
	case 0:
		return pick(g, "inport", "outport") + pick(g, " == ", " == ", " == ", " != ") + pick(g, `"a"`, `"c"`, "@ab", "@cd",
			`{"b", @cd}`, `{"d" "a"}`, "@none", "{@ab, @cd,}")
	case 1:
		return pick(g, "ip.proto", "icmp4.type", "icmp6.type", "icmp4.code") + " == " + pick(g, "6", "17", "{1, 58}",
			"{8, 128}", "0", "135", "0x84", "256")
	}
	return "eth.type == " + pick(g, "0x800", "0x86dd", "2054", "{0x800, 0x806}")
}

// numeric compares an ordinal field.
func (g *generator) numeric() string {
	pools := map[string][]string{
		"ip4": {"10.244.0.3", "10.244.1.3", "10.244.0.0/24", "0.0.0.0/0", "192.0.2.9/32", "10.244.0.3/255.255.0.255",
			"{10.244.0.5, 192.0.2.0/24}", "$pods_ip4", "{$pods_ip4, 10.244.0.5}", "$empty", "{$empty}", "$mixed", "fd00::1",
			"0x0af40003", "$none"},
		"ip6": {"fd00::3", "fd00::/16", "::/0", "{fd00:1::3, ff02::/16}", "$pods_ip6", "{$pods_ip6, $mixed}", "$empty",
			"10.244.0.3", "fe80::/ffc0::"},
		"l4": {"80", "53", "{80, 443}", "{53 2905}", "0x50", "65535", "0", "70000", "$ports", "80/0xff", "0/0x1",
			"0x50/0xf0", "40000"},
		"eth": {"0a:58:0a:f4:00:03", "0a:58:00:00:00:00/ff:ff:00:00:00:00", "$macs", "{$macs, 0a:58:0a:f4:01:03}"},
	}
	field := pick(g, "ip4.src", "ip4.dst", "ip6.src", "ip6.dst", "tcp.dst", "udp.dst", "sctp.dst", "tcp.src", "eth.src")
	pool := pools[strings.SplitN(field, ".", 2)[0]]
	if pool == nil {
		pool = pools["l4"]
	}
	value := pick(g, pool...)
	single := !strings.ContainsAny(value, "${")
	switch n := g.IntN(8); {
	case n == 0 && single:
		other := pick(g, pool...)
		if strings.ContainsAny(other, "${") {
			other = value
		}
		return value + pick(g, " < ", " <= ") + field + pick(g, " < ", " <= ", " <= ", " > ") + other
	case n < 3 && single:
		return field + pick(g, " < ", " <= ", " > ", " >= ") + value
	case n == 3:
		return value + pick(g, " == ", " != ") + field
	}
	return field + pick(g, " == ", " == ", " != ") + value
}
