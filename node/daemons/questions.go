package daemons

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/dpctl"
)

// question is a command for a daemon. read takes what the answer tells. instead is for a daemon that refuses.
type question struct {
	command   string
	arguments []string
	read      func(t *teller, answer string)
	instead   func(t *teller)
}

// Databases, as ovsdb-server knows them.
const (
	northbound = "OVN_Northbound"
	southbound = "OVN_Southbound"
)

var (
	inMemory  = question{command: "memory/show", read: readMemory}
	happened  = question{command: "coverage/show", read: readEvents}
	loopTimes = question{command: "stopwatch/show", read: readLoops}
)

// questions are those for each daemon.
var questions = map[string][]question{
	"ovs-vswitchd": {inMemory, happened,
		{command: dpctl.Show, read: readDatapaths},
		{command: "upcall/show", read: readFlowsLimit},
		{command: "dpctl/ct-get-nconns", read: number(connections), instead: kernelConnections},
		{command: "dpctl/ct-get-maxconns", read: number(connectionsLimit), instead: kernelConnectionsLimit}},
	"ovsdb-server": {inMemory},
	"ovn-controller": {inMemory, happened, loopTimes,
		{command: "connection-status", read: connection(southbound)}},
	"ovn-northd": {inMemory, happened, loopTimes,
		{command: "status", read: readStatus},
		{command: "nb-connection-status", read: connection(northbound)},
		{command: "sb-connection-status", read: connection(southbound)}},
	"ovnsb_relay": {inMemory},
	"ovnnb_db":    {inMemory, {command: "cluster/status", arguments: []string{northbound}, read: cluster(northbound)}},
	"ovnsb_db":    {inMemory, {command: "cluster/status", arguments: []string{southbound}, read: cluster(southbound)}},
}

// readMemory reads "cells:66 ofctrl_desired_flow_usage-KB:31".
func readMemory(t *teller, answer string) {
	for _, word := range strings.Fields(answer) {
		name, text, _ := strings.Cut(word, ":")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		if kind, isMemory := strings.CutSuffix(name, "-KB"); isMemory {
			t.gauge(memory, value*1024, t.daemon.Name, t.daemon.Node, kind)
		} else {
			t.gauge(objects, value, t.daemon.Name, t.daemon.Node, name)
		}
	}
}

// Events that are told, of some hundred.
var (
	toldEvents = []string{"consider_logical_flow", "lflow_run", "northd_run", "netlink_overflow", "physical_run",
		"rconn_overflow", "txn_error", "txn_success", "txn_try_again", "xlate_actions"}
	toldBeginnings = []string{"conntrack_", "datapath_drop_", "drop_action_", "pinctrl_drop_", "upcall_flow_limit_"}
)

func isTold(event string) bool {
	return slices.Contains(toldEvents, event) ||
		slices.ContainsFunc(toldBeginnings, func(begin string) bool { return strings.HasPrefix(event, begin) })
}

// readEvents reads lines as "lflow_run  0.4/sec  0.050/sec  0.0008/sec   total: 3".
func readEvents(t *teller, answer string) {
	for line := range strings.Lines(answer) {
		words := strings.Fields(line)
		if len(words) < 3 || words[len(words)-2] != "total:" || !isTold(words[0]) {
			continue
		}
		if total, err := strconv.ParseFloat(words[len(words)-1], 64); err == nil {
			t.counter(events, total, t.daemon.Name, t.daemon.Node, words[0])
		}
	}
}

// controllersLoops are the stopwatches of ovn-controller that are told. There is one on each node.
var controllersLoops = []string{"flow-generation", "flow-installation"}

// readLoops reads blocks that begin with "Statistics for 'NAME'".
func readLoops(t *teller, answer string) {
	loop := ""
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "Statistics for "); ok {
			loop = strings.Trim(name, "'")
			if t.daemon.Name == "ovn-controller" && !slices.Contains(controllersLoops, loop) {
				loop = ""
			}
			continue
		}
		if loop != "" {
			t.readLoop(loop, line)
		}
	}
}

// readLoop reads "Total samples: 6" or "95th percentile: 2.000000 msec".
func (t *teller) readLoop(loop, line string) {
	what, text, _ := strings.Cut(line, ": ")
	text, unit, _ := strings.Cut(text, " ")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return
	}
	if what == "Total samples" {
		t.counter(runs, value, t.daemon.Name, t.daemon.Node, loop)
		return
	}
	second, known := map[string]float64{"msec": 1e3, "usec": 1e6, "nsec": 1e9}[unit]
	if !known {
		return
	}
	switch what {
	case "Short term average":
		t.gauge(recent, value/second, t.daemon.Name, t.daemon.Node, loop)
	case "95th percentile":
		t.gauge(slow, value/second, t.daemon.Name, t.daemon.Node, loop)
	case "Maximum":
		t.gauge(longest, value/second, t.daemon.Name, t.daemon.Node, loop)
	}
}

func connection(database string) func(*teller, string) {
	return func(t *teller, answer string) {
		t.gauge(connected, truth(strings.TrimSpace(answer) == "connected"), t.daemon.Name, t.daemon.Node, database)
	}
}

// readStatus reads "Status: active".
func readStatus(t *teller, answer string) {
	t.gauge(active, truth(strings.TrimSpace(answer) == "Status: active"), t.daemon.Name, t.daemon.Node)
}

// cluster reads lines as "Role: leader", and one for each server below "Servers:".
func cluster(database string) func(*teller, string) {
	return func(t *teller, answer string) {
		servers, below := 0, false
		for line := range strings.Lines(answer) {
			if below && strings.HasPrefix(line, " ") {
				servers++
			}
			name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
			text = strings.TrimSpace(text)
			value, err := strconv.ParseFloat(text, 64)
			switch {
			case name == "Servers":
				below = true
			case name == "Role":
				t.gauge(leader, truth(text == "leader"), t.daemon.Name, t.daemon.Node, database)
			case name == "Term" && err == nil:
				t.gauge(term, value, t.daemon.Name, t.daemon.Node, database)
			case name == "Entries not yet committed" && err == nil:
				t.gauge(pending, value, t.daemon.Name, t.daemon.Node, database)
			}
		}
		if below {
			t.gauge(members, float64(servers), t.daemon.Name, t.daemon.Node, database)
		}
	}
}

// readDatapaths tells the sums of all datapaths.
func readDatapaths(t *teller, answer string) {
	datapaths, err := dpctl.ParseShow(answer)
	if err != nil {
		return
	}
	var sum dpctl.Datapath
	for _, d := range datapaths {
		sum.Flows, sum.Hit, sum.Missed, sum.Lost = sum.Flows+d.Flows, sum.Hit+d.Hit, sum.Missed+d.Missed, sum.Lost+d.Lost
	}
	t.gauge(flows, float64(sum.Flows), t.daemon.Node)
	for result, count := range map[string]uint64{"hit": sum.Hit, "missed": sum.Missed, "lost": sum.Lost} {
		t.counter(lookups, float64(count), t.daemon.Node, result)
	}
}

var limitOf = regexp.MustCompile(`\(limit (\d+)\)`)

// readFlowsLimit reads "flows : (current 0) (avg 0) (max 0) (limit 10000)" of each datapath.
func readFlowsLimit(t *teller, answer string) {
	total := 0.0
	for _, found := range limitOf.FindAllStringSubmatch(answer, -1) {
		value, _ := strconv.ParseFloat(found[1], 64)
		total += value
	}
	t.gauge(flowsLimit, total, t.daemon.Node)
}

// number reads an answer that is a number.
func number(of *prometheus.Desc) func(*teller, string) {
	return func(t *teller, answer string) {
		if value, err := strconv.ParseFloat(strings.TrimSpace(answer), 64); err == nil {
			t.gauge(of, value, t.daemon.Node)
		}
	}
}

// truth is 1 or 0.
func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
