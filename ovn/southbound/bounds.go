package southbound

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// What a node can have of the server's memory and disk does not grow with the time that it has been stolen for.
const (
	// maxOperations is how many a transaction may have: a node that starts writes a few for each of its pods.
	maxOperations = 10_000
	// maxMonitors is how many a node's connections may have; that of ovn-controller has two, and an old connection may
	// linger beside the new one. Each is work for the server whenever rows change.
	maxMonitors = 6
	// maxOperation is how many bytes one operation of a transaction has: a row's, and room for its condition.
	maxOperation = 96 << 10
	// maxMonitorName is how many bytes the name of one may have.
	maxMonitorName = 300
	// maxLearned is how many neighbours a router's port may have, and addresses a switch.
	maxLearned = 1 << 16
	// guards is by how many of them a node may write: the Southbound has three members as a rule, and no row says by which
	// guard it came.
	guards = 3
	// maxWritten is how many bytes of transactions a node may send in a minute. The server keeps them all until it next
	// compacts its file, which is in ten minutes.
	maxWritten = 8 << 20
)

// bound is of a table: how many bytes an operation may have there, and with it a row that grows piece by piece; and how
// many rows may be of one maker, 0 where the server has but one of each.
type bound struct {
	bytes, rows int
	// maker is whom a new row counts for.
	maker func(node string, row object) string
	// share is how many of a maker's rows one node may make by one guard, where several do; 0 where none do. No node, and
	// no few, can take all. key is the column that tells a maker's rows apart.
	share int
	key   string
}

var bounds = map[string]bound{
	"Chassis":         {bytes: 64 << 10},
	"Chassis_Private": {bytes: 64 << 10},
	"Port_Binding":    {bytes: 64 << 10},
	"Encap":           {bytes: 4 << 10, rows: 16, maker: theNode},
	"IGMP_Group":      {bytes: 64 << 10, rows: 10_000, maker: theNode},
	"MAC_Binding": {bytes: 1 << 10, rows: maxLearned, share: maxLearned / 8 / guards, key: "ip",
		maker: func(_ string, row object) string { return row.text("logical_port") }},
	"FDB": {bytes: 1 << 10, rows: maxLearned, share: maxLearned / 8 / guards, key: "mac",
		maker: func(_ string, row object) string { n, _ := row.number("dp_key"); return fmt.Sprint(n) }},
	"BFD":             {bytes: 1 << 10},
	"Service_Monitor": {bytes: 1 << 10},
}

func theNode(node string, _ object) string { return node }

// rows counts those that there are, by table and maker.
func (r *replica) rows() map[[2]string]int {
	now := r.Changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counted == now {
		return r.counts
	}
	counts := map[[2]string]int{}
	for _, row := range ovsdb.List[sb.Encap](r.Client, nil) {
		counts[[2]string{"Encap", row.ChassisName}]++
	}
	for _, row := range ovsdb.List[sb.IGMPGroup](r.Client, nil) {
		counts[[2]string{"IGMP_Group", row.ChassisName}]++
	}
	for _, row := range ovsdb.List[sb.MACBinding](r.Client, nil) {
		counts[[2]string{"MAC_Binding", row.LogicalPort}]++
	}
	for _, row := range ovsdb.List[sb.FDB](r.Client, nil) {
		counts[[2]string{"FDB", fmt.Sprint(row.DpKey)}]++
	}
	r.counted, r.counts = now, counts
	return counts
}

// extent is how many bytes there are of a row that may grow piece by piece.
func (r *replica) extent(table, uuid string) int {
	var row any
	switch table {
	case "Chassis":
		row, _ = ovsdb.Get[sb.Chassis](r.Client, uuid)
	case "Chassis_Private":
		row, _ = ovsdb.Get[sb.ChassisPrivate](r.Client, uuid)
	case "Encap":
		row, _ = ovsdb.Get[sb.Encap](r.Client, uuid)
	}
	text, err := json.Marshal(row)
	if err != nil {
		return 0
	}
	return len(text)
}

// transaction is what the operations of one have done so far.
type transaction struct {
	made  map[[2]string]int     // rows by table and maker
	named map[string]*operation // inserts by the names of their rows
	bytes map[[2]string]int     // of rows, by their tables and names
}

// resolve finds the insert whose row an operation is about. ovn-controller fills sets of a new row by further
// operations.
func (t *transaction) resolve(o *operation) {
	if kind, name := o.subject(); kind == "named-uuid" && t.named[name] != nil && t.named[name].table == o.table {
		o.about = t.named[name]
	}
}

// bounded says why an operation of so many bytes is too much.
func (t *transaction) bounded(r *replica, node string, o *operation, bytes int) error {
	if !slices.Contains([]string{"insert", "update", "mutate"}, o.op) {
		return nil
	}
	if t.bytes == nil {
		t.bytes, t.made, t.named = map[[2]string]int{}, map[[2]string]int{}, map[string]*operation{}
	}
	bound := bounds[o.table]
	kind, row := o.subject()
	switch {
	case o.op == "insert":
		row = o.name
	case o.op == "mutate" && kind == "uuid" && t.bytes[[2]string{o.table, row}] == 0:
		bytes += r.extent(o.table, row)
	}
	if row != "" {
		t.bytes[[2]string{o.table, row}] += bytes
		bytes = t.bytes[[2]string{o.table, row}]
	}
	if bytes > bound.bytes {
		return fmt.Errorf("%d bytes are more than the %d that a row of table %s may have", bytes, bound.bytes, o.table)
	}
	if o.op != "insert" {
		if o.about != nil { // what comes next is judged by what the row is now
			o.about.row = o.result()
		}
		return nil
	}
	if o.name != "" {
		if t.named[o.name] != nil {
			return fmt.Errorf("two rows of a transaction have the name %.60q", o.name)
		}
		t.named[o.name] = o
	}
	if bound.rows == 0 {
		return nil
	}
	maker := [2]string{o.table, bound.maker(node, o.row)}
	if r.rows()[maker]+t.made[maker] >= bound.rows {
		return fmt.Errorf("table %s has %d rows of %s, whichever nodes have made them, and may have no more", o.table,
			bound.rows, maker[1])
	}
	if bound.share > 0 {
		if err := r.authors.enter(r, authorship{o.table, maker[1], node}, o.row.text(bound.key), bound.share); err != nil {
			return err
		}
	}
	t.made[maker]++
	return nil
}

// ledger is what nodes have written in this minute. It outlives their connections.
type ledger struct {
	mu    sync.Mutex
	began time.Time
	bytes map[string]int
}

// enter says why a node may not write so many bytes more.
func (l *ledger) enter(node string, bytes int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.bytes == nil || now.Sub(l.began) >= time.Minute {
		l.began, l.bytes = now, map[string]int{}
	}
	if l.bytes[node] += bytes; l.bytes[node] > maxWritten {
		return fmt.Errorf("the node writes more than %d bytes in a minute", maxWritten)
	}
	return nil
}
