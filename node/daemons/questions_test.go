package daemons

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// said is a collector of what a daemon has told.
type said []prometheus.Metric

func (said) Describe(out chan<- *prometheus.Desc) { New(nil).Describe(out) }

func (s said) Collect(out chan<- prometheus.Metric) {
	for _, m := range s {
		out <- m
	}
}

// Answers are those of OVN 25.03 and Open vSwitch 3.5, cut.
func TestAnswersAreRead(t *testing.T) {
	for _, c := range []struct {
		daemon, command, answer string
		want                    string // without help and types
	}{
		{"ovsdb-server", "memory/show", "atoms:1388 cells:1373 raft-log:8 sessions:2 odd sessions:3\n", `
weft_daemon_objects{daemon="ovsdb-server",kind="atoms",node="n"} 1388
weft_daemon_objects{daemon="ovsdb-server",kind="cells",node="n"} 1373
weft_daemon_objects{daemon="ovsdb-server",kind="raft-log",node="n"} 8
weft_daemon_objects{daemon="ovsdb-server",kind="sessions",node="n"} 2
`},
		{"ovn-controller", "memory/show", "lflow-cache-entries-cache-expr:1 ofctrl_desired_flow_usage-KB:31", `
weft_daemon_memory_bytes{daemon="ovn-controller",kind="ofctrl_desired_flow_usage",node="n"} 31744
weft_daemon_objects{daemon="ovn-controller",kind="lflow-cache-entries-cache-expr",node="n"} 1
`},
		{"ovs-vswitchd", "coverage/show", `Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=c961516c:
bridge_reconfigure         0.0/sec     0.117/sec        0.0019/sec   total: 7
drop_action_of_pipeline    0.0/sec     0.067/sec        0.0011/sec   total: 4
xlate_actions            415.8/sec   211.200/sec        3.5200/sec   total: 13709
127 events never hit
`, `
weft_daemon_events_total{daemon="ovs-vswitchd",event="drop_action_of_pipeline",node="n"} 4
weft_daemon_events_total{daemon="ovs-vswitchd",event="xlate_actions",node="n"} 13709
`},
		{"ovn-controller", "stopwatch/show", `Statistics for 'pinctrl-run'
  Total samples: 27
  Maximum: 1 msec
Statistics for 'flow-generation'
  Total samples: 29
  Maximum: 28 msec
  Minimum: 0 msec
  95th percentile: 16.000000 msec
  Short term average: 0.500000 msec
  Long term average: 1.184465 msec
`, `
weft_daemon_loop_longest_seconds{daemon="ovn-controller",loop="flow-generation",node="n"} 0.028
weft_daemon_loop_p95_seconds{daemon="ovn-controller",loop="flow-generation",node="n"} 0.016
weft_daemon_loop_recent_seconds{daemon="ovn-controller",loop="flow-generation",node="n"} 0.0005
weft_daemon_loop_runs_total{daemon="ovn-controller",loop="flow-generation",node="n"} 29
`},
		{"ovn-northd", "stopwatch/show", "Statistics for 'ovnnb_db_run'\n  Total samples: 6\n  Maximum: 6 usec\n", `
weft_daemon_loop_longest_seconds{daemon="ovn-northd",loop="ovnnb_db_run",node="n"} 6e-06
weft_daemon_loop_runs_total{daemon="ovn-northd",loop="ovnnb_db_run",node="n"} 6
`},
		{"ovn-northd", "status", "Status: active\n", "weft_daemon_active{daemon=\"ovn-northd\",node=\"n\"} 1\n"},
		{"ovn-northd", "status", "Status: standby\n", "weft_daemon_active{daemon=\"ovn-northd\",node=\"n\"} 0\n"},
		{"ovn-controller", "connection-status", "not connected\n",
			`weft_daemon_connected{daemon="ovn-controller",database="OVN_Southbound",node="n"} 0` + "\n"},
		{"ovn-northd", "nb-connection-status", "connected\n",
			`weft_daemon_connected{daemon="ovn-northd",database="OVN_Northbound",node="n"} 1` + "\n"},
		{"ovnsb_db", "cluster/status", `01fc
Name: OVN_Southbound
Address: tcp:127.0.0.1:6644
Status: cluster member
Role: leader
Term: 3
Leader: self

Entries not yet committed: 2
Entries not yet applied: 0
Connections: ->0000 <-7123
Servers:
    01fc (01fc at tcp:192.0.2.1:6644) (self) next_index=2 match_index=9
    7123 (7123 at tcp:192.0.2.2:6644) next_index=10 match_index=9
`, `
weft_daemon_cluster_leader{daemon="ovnsb_db",database="OVN_Southbound",node="n"} 1
weft_daemon_cluster_members{daemon="ovnsb_db",database="OVN_Southbound",node="n"} 2
weft_daemon_cluster_term{daemon="ovnsb_db",database="OVN_Southbound",node="n"} 3
weft_daemon_cluster_uncommitted_entries{daemon="ovnsb_db",database="OVN_Southbound",node="n"} 2
`},
		{"ovs-vswitchd", "dpctl/show", `system@ovs-system:
  lookups: hit:10 missed:4 lost:1
  flows: 3
  masks: hit:15 total:2 hit/pkt:1.07
  port 0: ovs-system (internal)
netdev@ovs-netdev:
  lookups: hit:1 missed:0 lost:0
  flows: 2
`, `
weft_datapath_flows{node="n"} 5
weft_datapath_lookups_total{node="n",result="hit"} 11
weft_datapath_lookups_total{node="n",result="lost"} 1
weft_datapath_lookups_total{node="n",result="missed"} 4
`},
		{"ovs-vswitchd", "upcall/show", `netdev@ovs-netdev:
  flows         : (current 0) (avg 0) (max 0) (limit 10000)
  dump duration : 1ms
`, `weft_datapath_flows_limit{node="n"} 10000` + "\n"},
		{"ovs-vswitchd", "dpctl/ct-get-nconns", "17\n", `weft_datapath_connections{node="n"} 17` + "\n"},
		{"ovs-vswitchd", "dpctl/ct-get-maxconns", "3000000\n", `weft_datapath_connections_limit{node="n"} 3e+06` + "\n"},
	} {
		t.Run(c.daemon+" "+c.command, func(t *testing.T) {
			for _, q := range questions[c.daemon] {
				if q.command != c.command {
					continue
				}
				told := teller{daemon: Daemon{Name: c.daemon, Node: "n"}}
				q.read(&told, c.answer)
				if err := testutil.CollectAndCompare(said(told.metrics), strings.NewReader(described(c.want))); err != nil {
					t.Error(err)
				}
				return
			}
			t.Error("the daemon is not asked that")
		})
	}
}

// described adds to samples the lines that Prometheus' text has before those of each metric.
func described(samples string) string {
	var text strings.Builder
	last := ""
	for line := range strings.Lines(strings.TrimLeft(samples, "\n")) {
		name, _, _ := strings.Cut(line, "{")
		if name != last {
			last = name
			kind := "gauge"
			if strings.HasSuffix(name, "_total") {
				kind = "counter"
			}
			text.WriteString("# HELP " + name + " " + helpOf(name) + "\n# TYPE " + name + " " + kind + "\n")
		}
		text.WriteString(line)
	}
	return text.String()
}

// helpOf reads a description, as text has it.
func helpOf(name string) string {
	for _, d := range descriptions {
		_, rest, found := strings.Cut(d.String(), `fqName: "`+name+`", help: "`)
		if help, _, _ := strings.Cut(rest, `", constLabels`); found {
			return help
		}
	}
	return ""
}

// FuzzAnswers: whatever a daemon says, what it tells can be told.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{
		"a:1 a:2 b-KB:3", "lflow_run total: 3\nlflow_run total: 4", "Statistics for ''\nMaximum: 1 msec",
		"Role: leader\nRole: leader\nServers:\n x", "flows: x\nlookups: hit:", "(limit 99999999999999999999)", "NaN",
		"\xff:1", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		registry := prometheus.NewPedanticRegistry()
		var all said
		for name, list := range questions {
			told := teller{daemon: Daemon{Name: name, Node: name}}
			for _, q := range list {
				q.read(&told, strings.ToValidUTF8(text, "?")) // as the reader of JSON does
			}
			all = append(all, told.metrics...)
		}
		registry.MustRegister(all)
		if _, err := registry.Gather(); err != nil {
			t.Fatal(err)
		}
	})
}
