package southbound

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// shared are inserts of the i-th row that a node may make of what several make rows of, by table: of l2, and of l1.
var shared = map[string][2]string{
	"MAC_Binding": {
		`{"op":"insert","table":"MAC_Binding","row":{"logical_port":"office","datapath":["uuid","{datapath of office}"],"ip":"10.0.0.%d","mac":"m"}}`,
		`{"op":"insert","table":"MAC_Binding","row":{"logical_port":"office","datapath":["uuid","{datapath of office}"],"ip":"192.0.2.%d","mac":"m"}}`,
	},
	"FDB": {
		`{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":2,"mac":"0a:00:00:00:02:%02x"}}`,
		`{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":1,"mac":"0a:00:00:00:01:%02x"}}`,
	},
}

// spellings are ways to write a row's value that mean the same to the server: what stands in place of the quoted text.
var spellings = map[string]func(text string) string{
	"as it is":          func(text string) string { return `"` + text + `"` },
	"a set of one":      func(text string) string { return `["set",["` + text + `"]]` },
	"an escaped set":    func(text string) string { return `["\u0073et",["` + text + `"]]` },
	"an escaped letter": func(text string) string { return fmt.Sprintf(`"\u%04x%s"`, text[0], text[1:]) },
}

// TestANodeLeavesRowsToOthers: of what several nodes write, one node alone cannot take all, in whatever spelling. A
// connection that is ended and made again gives it no more, and rows that are gone give it their places back.
func TestANodeLeavesRowsToOthers(t *testing.T) {
	for name, spell := range spellings {
		t.Run(name, func(t *testing.T) { leavesRowsToOthers(t, spell) })
	}
}

func leavesRowsToOthers(t *testing.T, spell func(string) string) {
	const rows, share = 64, 4
	fewRows(t, rows)
	for table, bound := range bounds {
		if several := bound.rows > 0 && bound.maker("l2", object{}) != "l2"; several != (bound.share > 0) ||
			several != (shared[table] != [2]string{}) {
			t.Fatalf("table %s: of what several nodes write each has a share, and this shows it", table)
		}
		if bound.share > 0 {
			bound.share = share
			bounds[table] = bound
		}
	}
	s := newSouthbound(t)
	s.guard.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	write := func(conn net.Conn, row string, i int) string {
		defer conn.Close()
		row = regexp.MustCompile(`"(ip|mac)":"([^"]+)"`).ReplaceAllStringFunc(fmt.Sprintf(row, i),
			func(member string) string {
				column, value, _ := strings.Cut(member, ":\"")
				return column + ":" + spell(strings.TrimSuffix(value, `"`))
			})
		out, err := ask(conn, "transact", s.names.Replace(`["OVN_Southbound",`+row+`]`))
		if err != nil {
			return err.Error()
		}
		return out
	}
	refused := func(out string) bool { return strings.Contains(out, "share") }
	for table, by := range shared {
		made := 0
		for i := range 3 * share {
			if out := write(s.asNode(), by[0], i); !refused(out) {
				if made++; strings.Contains(out, `"error":"`) {
					t.Fatalf("%s: %s", table, out)
				}
			}
		}
		if made != share {
			t.Errorf("%s: l2 has made %d rows, and its share is %d", table, made, share)
		}
		if out := write(s.connectAs("l1"), by[1], 1); refused(out) || strings.Contains(out, `"error":"`) {
			t.Errorf("%s: l1 makes none: %s", table, out)
		}
	}
	// What is gone counts no more, as soon as the guard may believe that it is.
	ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--all", "destroy", "MAC_Binding")
	s.until("the guard does not see it", func() bool { return len(s.guard.replica.rowsOf("MAC_Binding", "office")) == 0 })
	s.passes(2 * unseen)
	if out := write(s.asNode(), shared["MAC_Binding"][0], 99); refused(out) || strings.Contains(out, `"error":"`) {
		t.Errorf("rows that are gone count: %s", out)
	}
}

// TestAuthorsThatNeverComeBackAreForgotten: nodes come and go, each with a name of its own. Whoever still has a row is
// remembered.
func TestAuthorsThatNeverComeBackAreForgotten(t *testing.T) {
	s := newSouthbound(t)
	s.until("the guard does not have the neighbour", func() bool {
		return len(s.guard.replica.rowsOf("MAC_Binding", "gw1")) == 1
	})
	makes := func(node, row string) {
		t.Helper()
		if err := s.guard.replica.authors.enter(s.guard.replica, authorship{"MAC_Binding", "gw1", node}, row, 4); err != nil {
			t.Fatal(err)
		}
	}
	makes("stays", "192.0.2.9")
	for i := range clientsAll - 1 {
		makes(fmt.Sprint("n", i), "198.51.100.1")
	}
	s.passes(2 * unseen)
	makes("new", "198.51.100.2")
	made := s.guard.replica.authors.made
	if len(made) != 2 || made[authorship{"MAC_Binding", "gw1", "stays"}] == nil {
		t.Errorf("%d authors are remembered", len(made))
	}
}
