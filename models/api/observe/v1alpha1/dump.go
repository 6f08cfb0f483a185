package v1alpha1

// Names of what a door gives to a sysdump. A dump is got by its name, and is no object: each line of it is a
// [DumpRecord].
const (
	// NetworkDumpResource is of the cluster.
	NetworkDumpResource = "networkdumps"
	NetworkDumpKind     = "NetworkDump"
	// NetworkDumpRole is the ClusterRole that lets users get them. An administrator binds it.
	NetworkDumpRole = "weft-observe-sysdump"
)

// Names of dumps.
const (
	NorthboundDump = "northbound"
	SouthboundDump = "southbound"
	AgentsDump     = "agents" // the metrics of nodes' agents
)

// DumpRecord is a line of a dump, which is a row of a database, the metrics of an agent, or an error.
type DumpRecord struct {
	// Table is the table of the row, or the one of which the rest is missing.
	Table string `json:"table,omitempty"`
	// Row is the row's columns, without the secrets that `weft observe` recognizes. A set of one value is that value,
	// other sets are lists, and maps are objects.
	Row map[string]any `json:"row,omitempty"`
	// Node is the name of the Node whose agent it is about.
	Node string `json:"node,omitempty"`
	// Metrics is the metrics of that agent, in Prometheus' text format, without such secrets.
	Metrics string `json:"metrics,omitempty"`
	// Error is why something is missing: the rest of the table, the metrics, or the rest of the dump.
	Error string `json:"error,omitempty"`
}
