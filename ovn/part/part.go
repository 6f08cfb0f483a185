package part

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/weftnet/weft/ovsdb"
)

// Part is one subject of the translation. It is used by one goroutine.
//
// Parts read each other. All of them take before the first one settles.
type Part interface {
	// Take takes in what has changed of the objects of the part's kinds, and what its signals and owners ask for. It is
	// called for each batch, also for one that names none of them.
	Take(*Batch)
	// Reconcile decides what follows from what all parts have taken in.
	Reconcile()
	// Dirty are the owners whose rows may be others than before, or all owners that have rows. Each comes once, with the
	// stage at which its change is made.
	Dirty(all bool) iter.Seq2[Stage, ovsdb.Owner]
	// Change is what an owner comes to. It changes nothing: asked again it says the same.
	Change(ovsdb.Owner) Outcome
	// Clean forgets which owners are dirty. Their changes were handed out.
	Clean()
}

// Outcome is what an owner comes to.
type Outcome struct {
	ovsdb.Change
	// Then is called when the change is handed out: it tells and remembers what follows from the rows. It is nil where
	// nothing does.
	Then func()
}

// Rows is an outcome of rows alone.
func Rows(change ovsdb.Change) Outcome { return Outcome{Change: change} }

// Stage says when a change is made.
//
// No change may let through, while it is made, what neither the old nor the new policies would. So all of it that
// policies, nodes, and pods that have a port need is one transaction, of which northd makes one in the Southbound, and
// ovn-controller one of all flows of its node. Where it is parted, for its size or because something in it is refused,
// its order sees to it as far as one object's change goes: sets come first, which alone decide nothing. Then come
// nodes, and then what policies have of numbers behind ports' names, which nobody has yet or nobody has any more. Then
// pods that have a port join the sets of new policies, and are in those of the old ones still. Then come policies, each
// of them all at once. After the transaction pods get their ports that had none. Sets that nobody names any more go
// after all that has named them.
type Stage int

const (
	Common     Stage = iota // what exists once, and what nobody waits for
	Sets                    // address sets and port groups, which policies name
	Nodes                   // nodes' switches and routers
	Numbers                 // policies that are the same, except for the numbers behind their ports' names
	Ports                   // pods that have a port, or had one
	Policies                // policies that there are
	NoPolicies              // policies that are gone
	NewPorts                // pods that get a port
	UnusedSets              // sets without rows; a part says Sets of all of them
	Balancers               // load balancers
	Stages                  // their number
)

// Together says whether changes of the stage are made in one transaction, with the others of which it is so.
func (s Stage) Together() bool { return s >= Sets && s <= NoPolicies }

// Once is the only owner of its kind, or none.
func Once(dirty bool, at Stage, owner ovsdb.Owner) iter.Seq2[Stage, ovsdb.Owner] {
	return func(yield func(Stage, ovsdb.Owner) bool) {
		if dirty {
			yield(at, owner)
		}
	}
}

// Of are the owners of what is there, or of what is dirty, in the order of their names.
func Of[K ~string, V, W any](all bool, there map[K]V, dirty map[K]W, at Stage, owner func(K) ovsdb.Owner,
) iter.Seq2[Stage, ovsdb.Owner] {
	return func(yield func(Stage, ovsdb.Owner) bool) {
		for _, name := range Among(all, there, dirty) {
			if !yield(at, owner(name)) {
				return
			}
		}
	}
}

// Among are the keys of what is there, or of what is dirty, in order.
func Among[K cmp.Ordered, V, W any](all bool, there map[K]V, dirty map[K]W) []K {
	switch {
	case all:
		return slices.Sorted(maps.Keys(there))
	case len(dirty) == 0: // as most of most batches
		return nil
	}
	return slices.Sorted(maps.Keys(dirty))
}

// Join are the owners of several sequences.
func Join(some ...iter.Seq2[Stage, ovsdb.Owner]) iter.Seq2[Stage, ovsdb.Owner] {
	return func(yield func(Stage, ovsdb.Owner) bool) {
		for _, one := range some {
			for at, owner := range one {
				if !yield(at, owner) {
					return
				}
			}
		}
	}
}

// Immediate is embedded in a part that decides all when it takes.
type Immediate struct{}

// Reconcile is part of [Part].
func (Immediate) Reconcile() {}

// Rowless is embedded in a part that has no rows.
type Rowless struct{}

// Dirty is part of [Part].
func (Rowless) Dirty(bool) iter.Seq2[Stage, ovsdb.Owner] {
	return func(func(Stage, ovsdb.Owner) bool) {}
}

// Change is part of [Part].
func (Rowless) Change(owner ovsdb.Owner) Outcome { return Rows(ovsdb.Change{Owner: owner}) }

// Clean is part of [Part].
func (Rowless) Clean() {}

// Empty makes a set anew of what is to be done, if anything is in it. To go over a map costs what it has ever held,
// also after clear: once everything was to be done, each later event would pay for it.
func Empty[K comparable, V any](set *map[K]V) {
	if len(*set) > 0 {
		*set = map[K]V{}
	}
}
