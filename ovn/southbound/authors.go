package southbound

import (
	"fmt"
	"sync"
	"time"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// authors remembers which node has made which of the rows that several nodes make of one maker: neighbours of a router
// port at which they all learn. The server's rows do not say it. A guard that starts knows of no row whose it is; the
// bound of all rows together holds for those.
type authors struct {
	mu   sync.Mutex
	made map[authorship]*authored
	look int // at so many authorships it is looked which still have rows
}

// authorship is a node's of one table and maker.
type authorship struct{ table, maker, node string }

// authored are rows by what is their own, with the time at which each was asked for.
type authored struct {
	rows map[string]time.Time
	look int // at so many rows it is looked which are still there
}

const (
	// leastLook is how many rows a node may have made before the guard looks which of them are there.
	leastLook = 64
	// unseen is how long a row may take from a request to the replica.
	unseen = time.Minute
)

// enter counts a row for its author, and says why it is one too many.
func (a *authors) enter(r *replica, by authorship, row string, share int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made == nil {
		a.made = map[authorship]*authored{}
	}
	mine := a.made[by]
	if mine == nil {
		if len(a.made) >= max(a.look, clientsAll) {
			a.forget(r)
		}
		mine = &authored{rows: map[string]time.Time{}, look: leastLook}
		a.made[by] = mine
	}
	if _, counted := mine.rows[row]; counted { // a look at the whole table would be for nothing
		mine.rows[row] = time.Now()
		return nil
	}
	if len(mine.rows) >= min(mine.look, share) {
		mine.forget(r.rowsOf(by.table, by.maker))
	}
	if len(mine.rows) >= share {
		return fmt.Errorf("the node has made %d rows of %s in table %s, which is its share; what is left is the other nodes'",
			share, by.maker, by.table)
	}
	mine.rows[row] = time.Now()
	return nil
}

// forget leaves out the authorships whose rows are gone: nodes come and go, each with a name of its own. a.mu is held.
func (a *authors) forget(r *replica) {
	there := map[string]map[string]map[string]struct{}{}
	for by, m := range a.made {
		if there[by.table] == nil {
			there[by.table] = r.learned(by.table)
		}
		if m.forget(there[by.table][by.maker]); len(m.rows) == 0 {
			delete(a.made, by)
		}
	}
	a.look = 2 * len(a.made)
}

// forget leaves out the rows that are gone.
func (m *authored) forget(there map[string]struct{}) {
	for row, asked := range m.rows {
		if _, is := there[row]; !is && time.Since(asked) > unseen {
			delete(m.rows, row)
		}
	}
	m.look = max(leastLook, 2*len(m.rows))
}

// rowsOf are the rows of a maker by what is their own.
func (r *replica) rowsOf(table, maker string) map[string]struct{} { return r.learned(table)[maker] }

// learned are the rows of a table by their makers, and by what is their own.
func (r *replica) learned(table string) map[string]map[string]struct{} {
	there := map[string]map[string]struct{}{}
	add := func(maker, row string) {
		if there[maker] == nil {
			there[maker] = map[string]struct{}{}
		}
		there[maker][row] = struct{}{}
	}
	switch table {
	case "MAC_Binding":
		for _, row := range ovsdb.List[sb.MACBinding](r.Client, nil) {
			add(row.LogicalPort, row.IP)
		}
	case "FDB":
		for _, row := range ovsdb.List[sb.FDB](r.Client, nil) {
			add(fmt.Sprint(row.DpKey), row.MAC)
		}
	}
	return there
}
