package reference

import (
	"cmp"
	"go/ast"
	"slices"
	"strings"
)

const prometheus = "github.com/prometheus/client_golang/prometheus"

// metric is a metric as its constructor has it.
type metric struct {
	name, kind, help string
	labels           []string
	folder           string
}

// Metrics is the page of all metrics.
func Metrics(s *Source) (*Page, error) {
	found, err := metrics(s)
	if err != nil {
		return nil, err
	}
	page := NewPage("Metrics", `
Each program that has the key `+"`metrics-address`"+` serves its metrics there on `+"`/metrics`"+`. It also
serves those of Go and of its process (`+"`go_…`, `process_…`"+`). [Health and
metrics](../reference.md#health-and-metrics) says which metric answers which question.

A *counter* only grows. It begins at 0 again after a restart: of the program that serves it, or of
the daemon if it is the daemon's. A *gauge* is a value of now. A *histogram* counts values, such as
times in seconds, by their size.`)
	for _, section := range []struct{ title, text, program string }{
		{"All programs", "If several keys of a program name the same file of certificates, there is a series for " +
			"each key. The label `purpose` has the key, with the exceptions that " +
			"[Monitoring](../monitoring.md#certificates) names.", "all"},
		{"weft controller", "", "controller"},
		{"weft node", "The metrics of domain names, of streams, of encryption and of HNS are served " +
			"only if the node has these. For example, only Windows nodes have HNS, and they have no encryption.", "node"},
		{"weft chassis", "A host has series with the label `node` only for nodes that it holds. Their counters begin at " +
			"0 when it takes the node.", "chassis"},
		{"weft southbound", "", "southbound"}, {"weft observe", "", "observe"},
		{"Connections to OVSDB", "weft controller serves these for its connection to the Northbound, and weft node " +
			"for its connection to the database of Open vSwitch. All of them also have the label `database`, with " +
			"the database's name. At weft node, transactions, rows and refused owners are not counted. Before its first " +
			"connection, weft node has none of these metrics.", "ovsdb"},
		{"Daemons of OVN and Open vSwitch", "Weft asks the daemons at their control sockets, at most every 10 " +
			"seconds. weft node asks the daemons of its node, and weft chassis the `ovn-controller` of each node that it " +
			"holds. weft southbound asks the OVN databases' servers, a relay included, and `ovn-northd` of its host. The " +
			"label `daemon` has the daemon's name. On central hosts its control socket is `/run/ovn/DAEMON.ctl`. " +
			"The label `node` has the node that the daemon works for, and is empty for the servers of OVN's databases and " +
			"`ovn-northd`. While a daemon does not answer, it has only `weft_daemon_up`. If its release does not know a " +
			"question, the metrics of this question are not there.", "daemons"},
	} {
		var rows [][]string
		for _, m := range found {
			if m.program() == section.program {
				rows = append(rows, []string{Code(m.name), m.kind, labelsOf(m.labels), m.help})
			}
		}
		page.Section(section.title, section.text)
		page.Table([]string{"metric", "type", "labels", "meaning"}, rows)
	}
	return page, nil
}

// MetricNames are those of all metrics, as Prometheus knows them: a histogram has three.
func (s *Source) MetricNames() (names map[string]struct{}, err error) {
	found, err := metrics(s)
	if err != nil {
		return nil, err
	}
	names = map[string]struct{}{}
	for _, m := range found {
		if m.kind != "histogram" {
			names[m.name] = struct{}{}
			continue
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			names[m.name+suffix] = struct{}{}
		}
	}
	return names, nil
}

// program is the one whose code has the metric.
func (m metric) program() string {
	for _, p := range [][2]string{{"models/telemetry", "all"}, {"ovsdb/certificates", "all"}, {"node/daemons", "daemons"},
		{"ovn/southbound", "southbound"}, {"ovn/observe", "observe"}, {"ovn", "controller"},
		{"node/chassis", "chassis"}, {"node", "node"}} {
		if m.folder == p[0] || strings.HasPrefix(m.folder, p[0]+"/") {
			return p[1]
		}
	}
	return m.folder
}

func labelsOf(labels []string) string {
	var list []string
	for _, label := range labels {
		list = append(list, Code(label))
	}
	return strings.Join(list, ", ")
}

// metrics are all that the code makes, by name. Each is made by a constructor of Prometheus' package.
func metrics(s *Source) (found []metric, err error) {
	for _, p := range all[*ast.CallExpr](s) {
		call := p.node.(*ast.CallExpr)
		importPath, constructor := p.at(call.Fun).qualified()
		kind, ok := strings.CutPrefix(constructor, "New")
		if importPath != prometheus || !ok || kind == "Registry" {
			continue
		}
		m, err := metricOf(p, kind)
		if err != nil {
			return nil, err
		}
		m.folder = p.in.folder
		found = append(found, m)
	}
	slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return found, nil
}

// metricOf reads a call as NewGauge(GaugeOpts{…}), NewGaugeVec(GaugeOpts{…}, labels) or NewDesc(name, help, labels, …).
func metricOf(p place, kind string) (m metric, err error) {
	args := p.node.(*ast.CallExpr).Args
	name, help, labels := ast.Expr(nil), ast.Expr(nil), ast.Expr(nil)
	switch {
	case kind == "Desc":
		name, help, labels = args[0], args[1], args[2]
	default:
		if strings.HasSuffix(kind, "Vec") {
			labels = args[1]
		}
		m.kind = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(kind, "Vec"), "Func"))
		options, err := p.at(args[0]).fields()
		if err != nil {
			return m, err
		}
		name, help = options["Name"], options["Help"]
	}
	if name == nil || help == nil {
		return m, p.errorf("a metric needs a name and a help")
	}
	if m.name, err = p.at(name).text(); err != nil {
		return m, err
	}
	if kind == "Desc" { // which does not say what its metrics are
		m.kind = "gauge"
		if strings.HasSuffix(m.name, "_total") {
			m.kind = "counter"
		}
	}
	if m.help, err = p.at(help).text(); err != nil || labels == nil {
		return m, err
	}
	m.labels, err = p.at(labels).texts()
	return m, err
}
