package objects

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/reasons"
)

// Problem is something wrong with an object that its owner can mend: it becomes an Event on it.
type Problem struct {
	Kind    *Kind
	Object  *metav1.ObjectMeta
	Reason  string // the name of a [reasons.Event]
	Field   string // with which the message begins, as "spec.priority"; "" of a problem that is no one field's
	Message string // what, and the remedy
	// Lasting: it is so for as long as the object is, and no mistake. Its Event is not repeated when a
	// controller starts.
	Lasting bool
	// Untold are as many more of the object's parts with the same reason, see [Few].
	Untold int
}

func Problemf(kind *Kind, meta *metav1.ObjectMeta, reason *reasons.Event, format string, args ...any) Problem {
	return Problem{Kind: kind, Object: meta, Reason: reason.Name, Message: Cut(fmt.Sprintf(format, args...), MaxMessage)}
}

// Fieldf is a problem of one field of an object.
func Fieldf(kind *Kind, meta *metav1.ObjectMeta, reason *reasons.Event, field, format string, args ...any) Problem {
	p := Problemf(kind, meta, reason, "%s: %s", field, fmt.Sprintf(format, args...))
	p.Field = field
	return p
}

// MaxTold bounds what is told of one object for one reason.
const MaxTold = 8

// Few are the problems, of each object and reason not more than somebody reads.
func Few(found []Problem) []Problem {
	if len(found) <= MaxTold && !slices.ContainsFunc(found, func(p Problem) bool { return p.Untold > 0 }) {
		return found
	}
	type subject struct {
		kind                    *Kind
		namespace, name, reason string
	}
	of := func(p Problem) subject { return subject{p.Kind, p.Object.Namespace, p.Object.Name, p.Reason} }
	told, untold := map[subject]int{}, map[subject]int{}
	var list []Problem
	for _, p := range found {
		untold[of(p)] += p.Untold
		if told[of(p)]++; told[of(p)] <= MaxTold {
			list = append(list, p)
		} else {
			untold[of(p)]++
		}
	}
	for _, p := range list {
		if more := untold[of(p)]; more > 0 {
			delete(untold, of(p))
			p.Field, p.Message = "", fmt.Sprintf("the same holds for %d more of its parts", more)
			list = append(list, p)
		}
	}
	return list
}

// Complaints collect what is wrong with the parts of one object, of which users write a thousand. The first of a
// reason are put into words, the others are counted: see [Few].
type Complaints struct {
	kind  *Kind
	meta  *metav1.ObjectMeta
	List  []Problem
	count map[string]int // by reason
}

func NewComplaints(kind *Kind, meta *metav1.ObjectMeta) *Complaints {
	return &Complaints{kind: kind, meta: meta}
}

// Add takes in a problem of a part; words are its message.
func (c *Complaints) Add(reason *reasons.Event, words func() string) {
	if c.counts(reason) {
		c.List = append(c.List, Problemf(c.kind, c.meta, reason, "%s", words()))
	}
}

// Limit is add of what limitf is.
func (c *Complaints) Limit(reason *reasons.Event, words func() string) {
	if c.counts(reason) {
		c.List = append(c.List, Limitf(c.kind, c.meta, reason, "%s", words()))
	}
}

// counts counts one more, and says whether it is told.
func (c *Complaints) counts(reason *reasons.Event) bool {
	if c.count == nil { // of most objects nothing is wrong
		c.count = map[string]int{}
	}
	c.count[reason.Name]++
	return c.count[reason.Name] <= MaxTold
}

// Problems are those that are told, the last of each reason with the number of the others. It is called once.
func (c *Complaints) Problems() []Problem {
	for i, p := range slices.Backward(c.List) {
		if more := c.count[p.Reason] - MaxTold; more > 0 {
			delete(c.count, p.Reason)
			c.List[i].Untold = more
		}
	}
	return c.List
}

// Limitf is a problem that is not the user's: something was left out that a datapath cannot do.
func Limitf(kind *Kind, meta *metav1.ObjectMeta, reason *reasons.Event, format string, args ...any) Problem {
	p := Problemf(kind, meta, reason, format, args...)
	p.Lasting = true
	return p
}

// Reference is how an Event names its object.
func (p Problem) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: p.Kind.String(), APIVersion: p.Kind.Resource().GroupVersion().String(),
		Namespace: p.Object.Namespace, Name: p.Object.Name, UID: p.Object.UID,
		ResourceVersion: p.Object.ResourceVersion}
}

// Key is that of the problem's object.
func (p Problem) Key() Key { return ReferenceTo(p.Kind, p.Object).Key() }

func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Key(), p.Reason, p.Message) }

// What users write may be long: an annotation has 256 KiB. An Event's message has 1,024 bytes, and what
// it quotes must leave room for the remedy.
const (
	MaxMessage = 1024
	maxQuoted  = 200
)

// Quoted is a user's text as a message may have it.
func Quoted(text string) string { return Cut(text, maxQuoted) }

// Cut keeps at most limit bytes of a text, and whole characters.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}

// LastingAnnotation is the annotation of an Event: it marks an Event that is valid as long as its object lives, so that
// a controller that starts does not write it again.
const LastingAnnotation = "weft.net/lasting"

// Annotations are those of a problem's Event.
func (p Problem) Annotations() map[string]string {
	if !p.Lasting {
		return nil
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%s", p.Object.UID, p.Reason, p.Message)
	return map[string]string{LastingAnnotation: fmt.Sprintf("%016x", h.Sum64())}
}
