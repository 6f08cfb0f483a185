package southbound

import (
	"fmt"
	"slices"
	"strings"
)

// attack is what a stolen node does on each of so many connections, again and again. It goes on with a new one
// when the guard has ended one. In requests {chassis}, {private} and {port} are the node's own rows, and {last} is
// the last transaction that the server has told of.
type attack struct {
	name        string
	connections int
	// nodes are stolen, 0 means one.
	nodes int
	// requests are of the n-th round, whose answers come before the next round. A nil one begins and ends with a
	// connection.
	requests func(n int) []string
	// stays is what the node has asked for once, before.
	stays []string
	// hears is how the node reads what it is told.
	hears hears
	// raw is instead of all that: what the node does by one connection, for the n-th time.
	raw func(n int, s *stolen)
	// northd: a real ovn-northd writes what there is, from a Northbound.
	northd bool
	// beside is what the same nodes do at the same time.
	beside *attack
}

// hears is how somebody reads what he is told.
type hears int

const (
	hearsAtOnce  hears = iota
	hearsSlowly        // as fast as the guard asks for
	hearsNothing       // not even the first answer
	hearsNoLater       // the first answers alone
)

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
			call(method, fmt.Sprintf(`["OVN_Southbound",%d,{"Address_Set":[{}],"Logical_Flow":[{}],"Port_Binding":[{}]}%s]`, n,
				more)),
			call("monitor_cancel", fmt.Sprintf(`[%d]`, n)),
		}
	}
}

const (
	insertAddress = `{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":90,"mac":"0a:00:00:00:%02x:%02x"}}`
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

const everyTable = `{"Address_Set":[{}],"Chassis":[{}],"Chassis_Private":[{}],"Logical_Flow":[{}],"Port_Binding":[{}]}`

// words are a map of the n-th round, of as many bytes as a row may have.
func words(n int) string {
	var pairs []string
	for i := range 3200 {
		pairs = append(pairs, fmt.Sprintf(`["k%04d","%06d"]`, i, n%1_000_000))
	}
	return `["map",[` + strings.Join(pairs, ",") + `]]`
}

// update writes a column of a row of the node's own.
func update(table, row, column, value string) string {
	const params = `["OVN_Southbound",{"op":"update","table":%q,"where":[["_uuid","==",["uuid","{%s}"]]],"row":{%q:%s}}]`
	return call("transact", fmt.Sprintf(params, table, row, column, value))
}

// noTransaction is who has none yet.
const noTransaction = "00000000-0000-0000-0000-000000000000"

// permittedAttacks are attacks by what a node may do.
func permittedAttacks() []attack {
	chassis := attack{name: "a chassis that changes all its words", connections: 1, requests: func(n int) []string {
		return []string{update("Chassis", "chassis", "external_ids", words(n))}
	}}
	all := []string{call("monitor_cond", `["OVN_Southbound",0,`+everyTable+`]`)}
	since := `["OVN_Southbound",%d,` + everyTable + `,"%s"]`
	return []attack{
		chassis,
		{name: "many words of which all hear", connections: 1, requests: func(n int) []string {
			return []string{update("Chassis_Private", "private", "external_ids", words(n))}
		}},
		{name: "a number beside many words, for old monitors", connections: maxMonitors,
			stays: []string{call("monitor", `["OVN_Southbound",0,{"Chassis_Private":[{}]}]`),
				update("Chassis_Private", "private", "external_ids", words(0))},
			requests: func(n int) []string {
				return []string{update("Chassis_Private", "private", "nb_cfg", fmt.Sprint(n))}
			}},
		{name: "what northd computes all flows by", connections: 1, northd: true, requests: func(n int) []string {
			able := fmt.Sprint(n%2 == 0)
			return []string{update("Chassis", "chassis", "other_config", `["map",[["ct-no-masked-label","`+able+`"]]]`)}
		}},
		{name: "a port that goes up and down", connections: clientsEach, requests: func(n int) []string {
			return []string{update("Port_Binding", "port", "up", fmt.Sprint(n%2 == 0))}
		}},
		{name: "readings that nobody reads", connections: clientsEach, hears: hearsNothing, stays: all},
		{name: "changes that nobody reads", connections: maxMonitors, hears: hearsNoLater, stays: all, beside: &chassis},
		{name: "changes that are read slowly", connections: maxMonitors, hears: hearsSlowly, stays: all, beside: &chassis},
		{name: "monitor_cond_since of a moment ago", connections: maxMonitors,
			stays: []string{call("monitor_cond_since", fmt.Sprintf(since, 0, noTransaction)), call("monitor_cancel", "[0]")},
			requests: func(n int) []string {
				return []string{call("monitor_cond_since", fmt.Sprintf(since, n+1, "{last}")),
					call("monitor_cancel", fmt.Sprintf("[%d]", n+1))}
			}},
	}
}

// strangeAttacks are attacks before and beside requests.
func strangeAttacks() []attack {
	return []attack{
		{name: "handshakes that hang", connections: pendingEach + clientsEach, raw: hang},
		{name: "garbage in TLS", connections: clientsEach, raw: garbage},
		{name: "connections", connections: clientsEach},
	}
}

// byThree are attacks that three nodes make together, too.
var byThree = []string{"monitor_cond_since", "costly conditions that stay", "many words of which all hear",
	"a port that goes up and down", "changes that nobody reads"}

func attacks() []attack {
	list := slices.Concat(refusedAttacks(), permittedAttacks(), strangeAttacks())
	for _, a := range list {
		if slices.Contains(byThree, a.name) {
			a.name, a.nodes = "three nodes, "+a.name, len(stolenNodes)
			list = append(list, a)
		}
	}
	return list
}

// refusedAttacks are attacks by requests that the guard has wait, or refuses.
func refusedAttacks() []attack {
	large := `["OVN_Southbound",{"op":"comment","comment":"` + strings.Repeat("x", longestRequest-(4<<10)) + `"},` +
		foreignPort + `]`
	wrong := strings.TrimSuffix(strings.Repeat(`["datapath","==",["uuid","00000000-0000-4000-8000-000000000000"]],`,
		90_000), ",")
	echoes := slices.Repeat([]string{call("echo", `[]`)}, 100)
	var monitors []string
	for i := range maxMonitors {
		monitors = append(monitors,
			call("monitor_cond_since", fmt.Sprintf(`["OVN_Southbound",%d,%s,"00000000-0000-0000-0000-000000000000"]`, i,
				costly(i))))
	}
	return []attack{
		{name: "selects of whole tables", connections: clientsEach, requests: func(int) []string {
			return []string{call("transact", `["OVN_Southbound",`+
				strings.TrimSuffix(strings.Repeat(`{"op":"select","table":"Address_Set","where":[]},`, 4), ",")+`]`)}
		}},
		{name: "monitor", connections: clientsEach, requests: reads("monitor", "")},
		{name: "monitor_cond", connections: clientsEach, requests: reads("monitor_cond", "")},
		{name: "monitor_cond_since", connections: clientsEach, requests: reads("monitor_cond_since",
			`,"00000000-0000-0000-0000-000000000000"`)},
		{name: "monitor, after what nobody waits for", connections: clientsEach, requests: func(n int) []string {
			return append([]string{call("", `[]`)}, reads("monitor", "")(n)...)
		}},
		{name: "costly conditions", connections: maxMonitors, requests: func(n int) []string {
			return []string{call("monitor_cond", fmt.Sprintf(`["OVN_Southbound",%d,%s]`, n, costly(n))),
				call("monitor_cancel", fmt.Sprintf(`[%d]`, n))}
		}},
		{name: "costly conditions that stay", connections: 1, stays: monitors},
		{name: "condition changes", connections: maxMonitors,
			stays: []string{call("monitor_cond",
				`["OVN_Southbound",0,{"DNS":[{"where":[false]}],"Logical_Flow":[{"where":[false]}],"MAC_Binding":[{"where":[false]}],"Port_Binding":[{"where":[false]}]}]`)},
			requests: func(n int) []string {
				return []string{call("monitor_cond_change", `[0,0,`+costly(n)+`]`),
					call("monitor_cond_change", `[0,0,{"Logical_Flow":[{"where":[true]}],"Port_Binding":[{"where":[true]}]}]`)}
			}},
		{name: "large conditions that are refused", connections: clientsEach, requests: func(n int) []string {
			return []string{call("monitor_cond", `["OVN_Southbound",0,{"MAC_Binding":[{"where":[`+wrong+
				`,["mac","!=","m"]]}]}]`)}
		}},
		{name: "large transactions that are refused", connections: clientsEach, requests: func(int) []string {
			return []string{call("transact", large)}
		}},
		{name: "long transactions that are refused", connections: clientsEach, requests: transactions(maxOperations-1,
			foreignPort)},
		{name: "long transactions that the server ends", connections: clientsEach,
			requests: transactions(maxOperations-1, `{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":90,"mac":7}}`)},
		{name: "echoes", connections: clientsEach, requests: func(int) []string { return echoes }},
	}
}
