package southbound

import (
	"time"

	"golang.org/x/time/rate"
)

// What a node writes the server tells all who are connected, and keeps for those who read slowly. So a node has
// others hear so much at once, and then so much a second. A node with 110 pods that starts writes some 100 kB.
const (
	heardRate  = 64 << 10
	heardBurst = 4 << 20
	// heardCost is what the smallest transaction counts.
	heardCost = 4 << 10
	// heardBy is how many connections hear a transaction before its bytes count once more.
	heardBy = 256
	// chassisBurst is how often a node may write its chassis and tunnels at once, and then once in chassisTime:
	// ovn-northd computes all flows anew by what a chassis can do, and every node its tunnels. An ovn-controller does it
	// several times when it or its node's agent starts, and what is refused takes all with it that the node writes at the
	// same time, such as its pods and neighbours. With 20, five starts within a minute or two were too many.
	chassisBurst = 60
	chassisTime  = time.Minute
)

// audience is what nodes have had others hear lately. It outlives their connections.
type audience struct{ bytes, chassis rates }

// tells is how much others hear of a transaction, and whether it writes a chassis or a tunnel.
type tells struct {
	bytes   int
	chassis bool
	rows    map[[2]string]struct{} // by table and UUID, that are counted
}

// tell counts an operation of so many bytes. A row counts as a whole: who monitors by an old method is told all of it.
func (t *tells) tell(r *replica, o *operation, bytes int) {
	if o.op == "comment" || o.op == "wait" {
		return
	}
	t.bytes += bytes
	if uuid, ok := o.uuid(); ok {
		t.row(r, o.table, uuid)
	}
	t.chassis = t.chassis || o.table == "Chassis" || o.table == "Encap"
}

// row counts a row, once of each transaction.
func (t *tells) row(r *replica, table, uuid string) {
	row := [2]string{table, uuid}
	if _, counted := t.rows[row]; counted {
		return
	}
	if t.rows == nil {
		t.rows = map[[2]string]struct{}{}
	}
	t.rows[row] = struct{}{}
	t.bytes += r.extent(table, uuid)
}

// enter counts a transaction that so many connections hear, unless the node has had others hear too much: then it
// counts nothing, and the node waits so long.
func (a *audience) enter(node string, t tells, by int) (wait time.Duration) {
	each := rate.Every(chassisTime)
	wait = a.bytes.take(node, 0, heardRate, heardBurst)
	if t.chassis {
		wait = max(wait, a.chassis.take(node, 0, each, chassisBurst))
	}
	if wait > 0 {
		return wait
	}
	a.bytes.take(node, heardCost+t.bytes*(1+by/heardBy), heardRate, heardBurst)
	if t.chassis {
		a.chassis.take(node, 1, each, chassisBurst)
	}
	return 0
}
