package southbound

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestRowsAge: what a node has made of neighbours a real ovn-northd deletes in time, whatever time the node says, and
// the node's share is free again.
func TestRowsAge(t *testing.T) {
	const share = 4
	fewRows(t, 64)
	bound := bounds["MAC_Binding"]
	bound.share = share
	bounds["MAC_Binding"] = bound
	s := newSouthbound(t)
	s.guard.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	for _, node := range []string{"l1", "l2"} { // or ovn-northd takes them for older ones, which say no times
		ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "set", "Chassis", node,
			"other_config:mac-binding-timestamp=true")
	}
	northbound := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+northbound.Endpoint, "lr-add", "r", "--", "set", "Logical_Router", "r",
		"options:chassis=l2", "options:mac_binding_age_threshold=2",
		"--", "lrp-add", "r", "out", "0a:00:00:00:00:01", "192.0.2.1/24")
	ovsdbtest.Northd(t, northbound, s.server)
	s.until("there is no router", func() bool { return s.guard.replica.ports().named["out"] != nil })
	datapath := s.guard.replica.ports().named["out"].Datapath
	conn := s.connectAs("l2")
	rows := func() int {
		return len(ovsdb.List(s.guard.replica.Client, func(r *sb.MACBinding) bool { return r.LogicalPort == "out" }))
	}
	for round, timestamp := range []string{
		"0", fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli()), fmt.Sprint(time.Now().UnixMilli()), fmt.Sprint(1 << 53),
		"9e15", `["set",[9000000000000000]]`, // other ways to write a time
	} {
		made := 0
		for i := range 2 * share {
			answer, err := ask(conn, "transact",
				fmt.Sprintf(`["OVN_Southbound",{"op":"insert","table":"MAC_Binding","row":{"logical_port":"out","datapath":["uuid",%q],"ip":%s,"mac":"0a:00:00:00:00:02","timestamp":%s}}]`,
					datapath, fmt.Sprintf([]string{`"192.0.2.%d"`, `["set",["192.0.2.%d"]]`}[round%2], 10*round+i), timestamp))
			if err != nil || strings.Contains(answer, `"error":"`) && !strings.Contains(answer, "share") {
				t.Fatal(answer, err)
			}
			if !strings.Contains(answer, `"error":"`) {
				made++
			}
		}
		if made != share {
			t.Errorf("with time %s the node makes %d rows, and its share is %d", timestamp, made, share)
		}
		s.until(fmt.Sprintf("rows of time %s are not deleted", timestamp), func() bool { return rows() == 0 })
		s.passes(2 * unseen)
	}
}

// passes has the guard believe that rows were asked for so long ago.
func (s *southbound) passes(long time.Duration) {
	a := &s.guard.replica.authors
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, mine := range a.made {
		for row := range mine.rows {
			mine.rows[row] = time.Now().Add(-long)
		}
	}
}
