package southbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatOthersHearIsPaced: what a node writes counts by its length and by how many hear it, and its chassis and
// tunnels by themselves.
func TestWhatOthersHearIsPaced(t *testing.T) {
	row, chassis := tells{bytes: 64 << 10}, tells{bytes: 1 << 10, chassis: true}
	for _, c := range []struct {
		what         string
		writes       tells
		by           int
		once, minute int
	}{
		{"small writes", tells{bytes: 400}, 1, 933, 874},
		{"rows as large as they may be", row, 1, 61, 56},
		{"rows as large as they may be, that 1,700 nodes hear", row, 1700, 10, 8},
		{"its chassis", chassis, 1, chassisBurst + 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var a audience
			passed := func() (n int) {
				for a.enter("l1", c.writes, c.by) == 0 {
					n++
				}
				return n
			}
			if n := passed(); n != c.once {
				t.Errorf("%s: %d at once, want %d", c.what, n, c.once)
			}
			minute := 0
			for began := time.Now(); time.Since(began) < time.Minute; minute += passed() {
				time.Sleep(a.enter("l1", c.writes, c.by))
			}
			if minute < c.minute || minute > c.minute+2 {
				t.Errorf("%s: %d in a minute, want %d", c.what, minute, c.minute)
			}
			if wait := a.enter("l2", c.writes, c.by); wait > 0 {
				t.Errorf("%s: another node waits %s", c.what, wait)
			}
		})
	}
}

// TestANodeThatStartsWaitsForNoHearers: with 5,000 nodes at one server, an ovn-controller writes its chassis, and
// then each of 110 pods three times, as it takes, binds and raises its port; and so it does again half an hour
// later.
func TestANodeThatStartsWaitsForNoHearers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a audience
		for range 2 {
			for range 5 {
				if wait := a.enter("l1", tells{bytes: 3 << 10, chassis: true}, 5000); wait > 0 {
					t.Fatalf("its chassis waits %s", wait)
				}
			}
			for i := range 3 * 110 {
				time.Sleep(time.Second / 30) // ten pods a second
				if wait := a.enter("l1", tells{bytes: 400}, 5000); wait > 0 {
					t.Fatalf("write %d waits %s", i, wait)
				}
			}
			time.Sleep(30 * time.Minute)
		}
	})
}

// TestClausesOfANode: its monitors have so many together, and what is more is told of all of a table.
func TestClausesOfANode(t *testing.T) {
	node := &peer{}
	var first, second watched
	where := strings.TrimSuffix(strings.Repeat(`["dp_key","==",1],`, maxClauses), ",")
	clauses := `{"FDB":[{"where":[` + where + `]}],"Chassis":[{}],"DNS":[{"where":[true]}]}`
	wide := func(w *watched, method, name string) bool {
		params := []json.RawMessage{json.RawMessage(`"OVN_Southbound"`), json.RawMessage(name), json.RawMessage(clauses)}
		if method == "monitor_cond_change" {
			params[0] = params[1]
		}
		if err := w.ask(node, method, params); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(params[2]), `"FDB":[{"where":[true]}]`)
	}
	for i, c := range []struct {
		w            *watched
		method, name string
		wide         bool
	}{
		{&first, "monitor_cond", "1", false},
		{&first, "monitor_cond_change", "1", false}, // it has had as many
		{&second, "monitor_cond_since", "1", true},
		{&first, "monitor_cond", "2", true},
		{&first, "monitor_cond_change", "2", true},
	} {
		if got := wide(c.w, c.method, c.name); got != c.wide {
			t.Errorf("request %d: told of all: %t, want %t", i, got, c.wide)
		}
	}
	first.leave(node)
	if wide(&second, "monitor_cond_change", "1") {
		t.Error("clauses of a connection that has ended count")
	}
	second.leave(node)
	if left := slices.Collect(func(yield func(string) bool) {
		for table, n := range node.clauses {
			if !yield(fmt.Sprint(table, n)) {
				return
			}
		}
	}); len(left) > 0 {
		t.Errorf("clauses of no connection: %v", left)
	}
}

// TestARowIsLookedAtOnce: of a transaction that names a row again and again, and of a node that writes again what it
// has written, the guard looks neither at the row nor at the table each time. Without a replica it could not.
func TestARowIsLookedAtOnce(t *testing.T) {
	const uuid = "6f9619ff-8b86-4d11-b42d-00c04fc964ff"
	o, err := newOperation(object{"op": json.RawMessage(`"delete"`), "table": json.RawMessage(`"Chassis"`),
		"where": json.RawMessage(`[["_uuid","==",["uuid","` + uuid + `"]]]`)})
	if err != nil {
		t.Fatal(err)
	}
	told := tells{rows: map[[2]string]struct{}{{"Chassis", uuid}: {}}}
	for range 3 {
		told.tell(nil, o, 100)
	}
	if told.bytes != 300 || !told.chassis {
		t.Errorf("others hear %+v", told)
	}
	var made authors
	by := authorship{"MAC_Binding", "office", "l2"}
	for i := range 8 {
		if err := made.enter(nil, by, fmt.Sprint("10.0.0.", i%4), 4); err != nil {
			t.Error(err)
		}
	}
}

// TestATransactionWaitsForAMoment: longer than that it would come after what the node has written on another
// connection.
func TestATransactionWaitsForAMoment(t *testing.T) {
	for _, c := range []struct {
		lately int // bytes, beyond what passes at once
		waits  time.Duration
		again  bool
	}{
		{heardRate, time.Second, false},
		{60 * heardRate, longestWait, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &Guard{}
			g.audience.bytes.take("l1", heardBurst, heardRate, heardBurst)
			g.audience.bytes.take("l1", c.lately, heardRate, heardBurst)
			s := &session{guard: g, node: "l1", over: make(chan struct{}), peer: &peer{busy: make(chan struct{}, 1)}}
			began := time.Now()
			refused, ended := s.judge(t.Context(), "transact", []json.RawMessage{json.RawMessage(`"OVN_Southbound"`)}, false)
			if took := time.Since(began); ended != nil || took.Round(time.Millisecond) != c.waits ||
				errors.As(refused, &errNotYet{}) != c.again {
				t.Errorf("%d bytes: it waits %s, want %s; refused: %v, %v", c.lately, took, c.waits, refused, ended)
			}
		})
	}
}
