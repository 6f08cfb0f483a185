package part

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// Event is what is to be looked at: an [objects.Key] of an object that may have changed, or a [Signal].
type Event interface{ fmt.Stringer }

// Signal is an event that is no object's. Most signals have the name of what they are about.
type Signal struct {
	What *SignalKind
	Name string
}

func (s Signal) String() string { return strings.TrimSpace(s.What.words + " " + s.Name) }

// SignalKind says what a signal asks for. There is one of each, which the part has that it is for.
type SignalKind struct {
	words string
	after time.Duration
}

// NewSignal is a signal with some words for logs. One that a part expects comes after a while.
func NewSignal(words string, after time.Duration) *SignalKind { return &SignalKind{words, after} }

// Patience is how long something that somebody else will do may take before it is a problem.
const Patience = 10 * time.Second

// Wait is how long after a part expects an event it is to be given it.
func Wait(e Event) time.Duration {
	if s, ok := e.(Signal); ok {
		return s.What.after
	}
	return Patience
}

// Again asks for the rows of an owner although nothing has changed: they were refused, or changed by another hand.
var Again = NewSignal("rows of", Patience)

// Lookup finds the newest state of what an event is about, nil when there is none any more.
type Lookup func(Event) any

// Batch is what has changed since the last one. The names in it are sorted, each once, so that nothing depends on the
// order of events.
type Batch struct {
	get     Lookup
	names   map[*objects.Kind][]string
	signals map[*SignalKind][]string
	again   map[string][]string // owners by their first word
}

// NewBatch is a batch of events.
func NewBatch(events []Event, get Lookup) *Batch {
	b := &Batch{get: get}
	for _, e := range events {
		switch e := e.(type) {
		case objects.Key:
			put(&b.names, e.Kind, e.Name)
		case Signal:
			if e.What == Again {
				word, name := Split(ovsdb.Owner(e.Name))
				put(&b.again, word, name)
			} else {
				put(&b.signals, e.What, e.Name)
			}
		}
	}
	sort(b.names)
	sort(b.signals)
	sort(b.again)
	return b
}

func put[K comparable](lists *map[K][]string, k K, name string) {
	if *lists == nil { // most batches have events of one sort
		*lists = map[K][]string{}
	}
	(*lists)[k] = append((*lists)[k], name)
}

func sort[K comparable](lists map[K][]string) {
	for k, list := range lists {
		slices.Sort(list)
		lists[k] = slices.Compact(list)
	}
}

// Names are the objects of a kind that may have changed.
func (b *Batch) Names(k *objects.Kind) []string { return b.names[k] }

// Signals are the names of the signals that came.
func (b *Batch) Signals(what *SignalKind) []string { return b.signals[what] }

// Asks says whether a signal came that has no name.
func (b *Batch) Asks(what *SignalKind) bool { return len(b.signals[what]) > 0 }

// AsksFor says whether the rows of an owner are asked for although nothing has changed.
func (b *Batch) AsksFor(owner ovsdb.Owner) bool {
	word, name := Split(owner)
	return slices.Contains(b.again[word], name)
}

// Again are the names of the owners with a first word whose rows are asked for although nothing has changed.
func (b *Batch) Again(word string) []string { return b.again[word] }

// Looks are the objects of a kind that may have changed, and those whose rows are asked for although nothing has: of a
// kind whose objects have rows under their own names.
func (b *Batch) Looks(k *objects.Kind) []string {
	if again := b.again[k.String()]; len(again) > 0 {
		list := slices.Concat(b.names[k], again)
		slices.Sort(list)
		return slices.Compact(list)
	}
	return b.names[k]
}

// Object is the newest state of an object, nil when it is gone.
func Object[T any](b *Batch, k *objects.Kind, name string) *T {
	object, _ := b.get(objects.Key{Kind: k, Name: name}).(*T)
	return object
}

// Text is what is known of a signal's subject now, "" for nothing.
func (b *Batch) Text(what *SignalKind, name string) string {
	text, _ := b.get(Signal{what, name}).(string)
	return text
}

// Split is an owner's first word, and the rest of its name.
func Split(owner ovsdb.Owner) (word, name string) {
	word, name, _ = strings.Cut(string(owner), "/")
	return word, name
}
