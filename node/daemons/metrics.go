package daemons

import "github.com/prometheus/client_golang/prometheus"

// What is told. The label daemon is [Daemon.Name], and node is [Daemon.Node].
var (
	up = prometheus.NewDesc("weft_daemon_up",
		"1 if the daemon has answered at its control socket, else 0.", []string{"daemon", "node"}, nil)
	build = prometheus.NewDesc("weft_daemon_build_info",
		"1, with the version of a daemon that has answered.", []string{"daemon", "node", "version"}, nil)
	connected = prometheus.NewDesc("weft_daemon_connected",
		"1 while ovn-controller or ovn-northd is connected to a database, else 0.",
		[]string{"daemon", "node", "database"}, nil)
	active = prometheus.NewDesc("weft_daemon_active",
		"1 for the ovn-northd that translates, 0 for one that stands by or is paused.", []string{"daemon", "node"}, nil)
	objects = prometheus.NewDesc("weft_daemon_objects",
		"Number of objects that a daemon has in memory (memory/show): cells and atoms of a database, raft-log "+
			"entries, OpenFlow rules.",
		[]string{"daemon", "node", "kind"}, nil)
	memory = prometheus.NewDesc("weft_daemon_memory_bytes",
		"Memory that a daemon uses, as it reports it (memory/show).", []string{"daemon", "node", "kind"}, nil)
	events = prometheus.NewDesc("weft_daemon_events_total",
		"Number of events since the daemon has started (coverage/show): packets that it has dropped, limits that "+
			"it has reached, its work.",
		[]string{"daemon", "node", "event"}, nil)
	runs = prometheus.NewDesc("weft_daemon_loop_runs_total",
		"Runs of a part of the main loop of ovn-northd or ovn-controller (stopwatch/show).",
		[]string{"daemon", "node", "loop"}, nil)
	recent = prometheus.NewDesc("weft_daemon_loop_recent_seconds",
		"Seconds that one run of a part of the main loop took lately, on average.",
		[]string{"daemon", "node", "loop"}, nil)
	slow = prometheus.NewDesc("weft_daemon_loop_p95_seconds",
		"Seconds within which 95 % of the runs of a part of the main loop end, by the daemon's estimate.",
		[]string{"daemon", "node", "loop"}, nil)
	longest = prometheus.NewDesc("weft_daemon_loop_longest_seconds",
		"Seconds of the longest run of a part of the main loop since the daemon has started.",
		[]string{"daemon", "node", "loop"}, nil)
	leader = prometheus.NewDesc("weft_daemon_cluster_leader",
		"1 for the server that leads the cluster of a database, 0 for one that does not. A database without a cluster "+
			"has none.",
		[]string{"daemon", "node", "database"}, nil)
	members = prometheus.NewDesc("weft_daemon_cluster_members",
		"Servers that belong to a database's cluster, as this server reports them, whether they run or not.",
		[]string{"daemon", "node", "database"}, nil)
	term = prometheus.NewDesc("weft_daemon_cluster_term",
		"Term of a database's cluster: each election begins a new one.", []string{"daemon", "node", "database"}, nil)
	pending = prometheus.NewDesc("weft_daemon_cluster_uncommitted_entries",
		"Entries of a cluster's log that are not committed yet.", []string{"daemon", "node", "database"}, nil)
	flows = prometheus.NewDesc("weft_datapath_flows",
		"Flows of the datapath, of all bridges.", []string{"node"}, nil)
	flowsLimit = prometheus.NewDesc("weft_datapath_flows_limit",
		"Flows that ovs-vswitchd allows in the datapath now. It lowers the limit if it takes too long to check them.",
		[]string{"node"}, nil)
	lookups = prometheus.NewDesc("weft_datapath_lookups_total",
		"Packets that met a flow of the datapath (hit), that met none (missed), or that were lost on the way to "+
			"ovs-vswitchd (lost). The kernel's datapath also counts a lost packet as missed.", []string{"node", "result"}, nil)
	connections = prometheus.NewDesc("weft_datapath_connections",
		"Connections that are tracked: by Open vSwitch if its datapath is in userspace, otherwise by the Linux kernel "+
			"in the host's network namespace. Windows nodes do not have this metric.", []string{"node"}, nil)
	connectionsLimit = prometheus.NewDesc("weft_datapath_connections_limit",
		"Connections that can be tracked at the same time. Windows nodes do not have this metric.", []string{"node"}, nil)

	descriptions = []*prometheus.Desc{up, build, connected, active, objects, memory, events, runs, recent, slow, longest,
		leader, members, term, pending, flows, flowsLimit, lookups, connections, connectionsLimit}
)
