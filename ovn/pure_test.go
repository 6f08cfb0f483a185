package ovn

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovn/northbound/northboundtest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/cases"
)

// TestAskingChangesNothing asks all parts of random clusters for rows, twice and in other orders: of what is dirty, of
// everything, and of owners that nobody knows. Each answer is the same as before, so is all that the cluster remembers,
// and so is what is handed out at last.
func TestAskingChangesNothing(t *testing.T) {
	for seed := range cases.Of(*lives) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := newPolicyLife(t, seed)
			asked := asking{t, rand.New(rand.NewPCG(seed, 17))}
			for range 15 {
				_, keys := l.event()
				l.c.update(append(keys, l.w.absorb(l.c)...), l.w.Get)
				asked.twice(l.c)
			}
		})
		t.Run(fmt.Sprint(seed, " of addresses"), func(t *testing.T) {
			t.Parallel()
			l := newAddressLife(t, seed)
			asked := asking{t, rand.New(rand.NewPCG(seed, 19))}
			for range 15 {
				_, keys := l.event()
				l.c.update(append(keys, l.w.absorb(l.c)...), l.w.Get)
				asked.twice(l.c)
			}
		})
	}
}

// TestPartsShareNothing: each kind is taken by one part. Each owner has its rows of one part, which says so where parts
// are wired, and each word there is that of some owner. The rows are in tables and columns that Weft writes.
func TestPartsShareNothing(t *testing.T) {
	l := newAddressLife(t, 1)
	policiesWorld(t, l.w)
	mixedWorld(l.w)
	l.w.put(append(l.w.policies(t, `{kind: AdminNetworkPolicy, metadata: {name: a}, spec: {subject: {namespaces: {}}}}`),
		l.w.egressIP("a", "", "203.0.113.20"))...)
	l.c.update(l.w.Keys(), l.w.Get)
	l.c.takeChanges()
	l.c.update(l.w.put(l.w.slice("dns-a", "dns", nil)), l.w.Get) // its endpoints go
	again := l.c.TakeExpected()
	for _, o := range l.c.outcomes(true) {
		again = append(again, part.Signal{What: part.Again, Name: string(o.Owner)})
	}
	l.c.takeChanges()
	l.c.update(append(again, l.c.TakeExpected()...), l.w.Get)
	kinds, words, given := map[*objects.Kind]int{}, map[string]int{}, map[string]bool{}
	for _, p := range l.c.parts {
		for _, k := range p.takes {
			if kinds[k]++; kinds[k] > 1 {
				t.Errorf("%s is taken twice", k)
			}
		}
		for _, word := range p.gives {
			if words[word]++; words[word] > 1 {
				t.Errorf("%s is given twice", word)
			}
		}
		for _, all := range []bool{false, true} {
			for at, owner := range p.Dirty(all) {
				word, _ := part.Split(owner)
				if given[word] = true; !slices.Contains(p.gives, word) {
					t.Errorf("%s is of a part that gives %v", owner, p.gives)
				}
				northboundtest.Change(t, p, owner)
				if at < 0 || at >= part.Stages || at == part.UnusedSets {
					t.Errorf("%s has the stage %d", owner, at)
				}
			}
		}
	}
	for word := range words {
		if !given[word] {
			t.Errorf("no part has an owner of %s; correct the word where parts are wired, or put such an object into this "+
				"test's world", word)
		}
	}
	if len(kinds) < 13 || len(words) < 15 {
		t.Errorf("%d kinds and %d words are wired", len(kinds), len(words))
	}
}

// asking asks a cluster.
type asking struct {
	t      *testing.T
	random *rand.Rand
}

// twice asks for all owners in their order, and then in others, and compares with what is handed out.
func (a asking) twice(c *cluster) {
	a.t.Helper()
	before := traceOf(c)
	dirty, everything := answersOf(c.outcomes(false)), answersOf(c.outcomes(true))
	for range 2 {
		a.atRandom(c, dirty.rows, everything.rows)
		if now := answersOf(c.outcomes(true)); !slices.Equal(now.order, everything.order) ||
			!maps.Equal(now.rows, everything.rows) {
			a.t.Fatal("everything is something else when it is asked for again")
		}
		if now := answersOf(c.outcomes(false)); !slices.Equal(now.order, dirty.order) || !maps.Equal(now.rows, dirty.rows) {
			a.t.Fatal("what is dirty is something else when it is asked for again")
		}
	}
	if left := before.changed(traceOf(c)); left != "" {
		a.t.Fatalf("asking has left a trace:\n%s", left)
	}
	handed := map[ovsdb.Owner]string{}
	for _, change := range c.takeChanges() {
		handed[change.Owner] = rowsText(change)
	}
	if !maps.Equal(handed, dirty.rows) {
		a.t.Fatal("what is handed out is not what was asked for")
	}
	if left := c.outcomes(false); len(left) > 0 {
		a.t.Fatalf("%s is dirty still", left[0].Owner)
	}
}

// atRandom asks the parts for single owners, in any order and some of them more than once.
func (a asking) atRandom(c *cluster, dirty, everything map[ovsdb.Owner]string) {
	a.t.Helper()
	owners := slices.Concat(slices.Sorted(maps.Keys(everything)), slices.Sorted(maps.Keys(dirty)))
	a.random.Shuffle(len(owners), func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
	for _, owner := range owners {
		want, known := dirty[owner]
		if !known {
			want = everything[owner]
		}
		if now := rowsText(c.changeOf(owner)); now != want {
			a.t.Fatalf("%s is something else when it is asked for alone:\n%s", owner, diff(want, now))
		}
	}
	for _, p := range c.parts {
		for _, word := range p.gives {
			owner := ovsdb.Owner(word + "/nobody")
			if change := p.Change(owner).Change; everything[change.Owner] == "" && len(change.Rows) > 0 {
				a.t.Fatalf("%s has rows", owner)
			}
		}
	}
}

// answers are what owners come to, and the order of their changes with what is made together.
type answers struct {
	rows  map[ovsdb.Owner]string
	order []string
}

func answersOf(outcomes []part.Outcome) answers {
	all := answers{rows: map[ovsdb.Owner]string{}}
	for _, o := range outcomes {
		all.rows[o.Owner] = rowsText(o.Change)
		all.order = append(all.order, fmt.Sprint(o.Owner, " ", o.With))
	}
	return all
}

// trace is all that can be reached from something, part by part, by type and address.
type trace map[string]string

func traceOf(v any) trace {
	all := trace{}
	all.follow(reflect.ValueOf(v))
	return all
}

// changed says how one trace differs from another, "" where it does not.
func (t trace) changed(now trace) string {
	for at, text := range t {
		if now[at] != text {
			return at + "\n" + text + "\n" + now[at]
		}
	}
	return ""
}

// note takes in what is at an address, and says whether it was not known yet.
func (t trace) note(v reflect.Value, text func() string) bool {
	at := fmt.Sprintf("%s %#x", v.Type(), v.Pointer())
	if v.Kind() == reflect.Slice { // others may have a part of it
		at += fmt.Sprint(" ", v.Len())
	}
	if _, known := t[at]; known {
		return false
	}
	t[at] = text()
	return true
}

func (t trace) follow(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			t.follow(v.Elem())
		}
	case reflect.Pointer:
		if !v.IsNil() && t.note(v, func() string { return word(v.Elem()) }) {
			t.follow(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			t.follow(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			t.follow(v.Index(i))
		}
	case reflect.Slice:
		if v.Len() > 0 && t.note(v, func() string { return wordOfAll(v) }) {
			for i := range v.Len() {
				t.follow(v.Index(i))
			}
		}
	case reflect.Map:
		if !v.IsNil() && t.note(v, func() string { return wordOfMap(v) }) {
			for entries := v.MapRange(); entries.Next(); {
				t.follow(entries.Key())
				t.follow(entries.Value())
			}
		}
	}
}

// word is a value's text, with addresses in place of what it points to.
func word(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return fmt.Sprintf("%#x", v.Pointer())
	case reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return v.Elem().Type().String() + word(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			fields = append(fields, v.Type().Field(i).Name+"="+word(v.Field(i)))
		}
		return "{" + strings.Join(fields, " ") + "}"
	case reflect.Array, reflect.Slice:
		return wordOfAll(v)
	}
	return fmt.Sprint(v)
}

func wordOfAll(v reflect.Value) string {
	var list []string
	for i := range v.Len() {
		list = append(list, word(v.Index(i)))
	}
	return "[" + strings.Join(list, " ") + "]"
}

func wordOfMap(v reflect.Value) string {
	var list []string
	for entries := v.MapRange(); entries.Next(); {
		list = append(list, word(entries.Key())+": "+word(entries.Value()))
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}
