package ovn

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
)

// problem is something wrong with an object that its owner can mend: it becomes an Event on it.
type problem struct {
	kind    string // Node, Pod or Service
	meta    *metav1.ObjectMeta
	reason  string // CamelCase, for machines
	message string // what, and the remedy
	// lasting: it is so for as long as the object is, and no mistake. Its Event is not repeated when a
	// controller starts.
	lasting bool
	// untold are as many more of the object's parts with the same reason, see complaints.
	untold int
}

func problemf(kind string, meta *metav1.ObjectMeta, reason, format string, args ...any) problem {
	return problem{kind: kind, meta: meta, reason: reason, message: cut(fmt.Sprintf(format, args...), maxMessage)}
}

// maxTold bounds what is told of one object for one reason.
const maxTold = 8

// few are the problems, of each object and reason not more than somebody reads.
func few(found []problem) []problem {
	if len(found) <= maxTold && !slices.ContainsFunc(found, func(p problem) bool { return p.untold > 0 }) {
		return found
	}
	type subject struct{ kind, namespace, name, reason string }
	of := func(p problem) subject { return subject{p.kind, p.meta.Namespace, p.meta.Name, p.reason} }
	told, untold := map[subject]int{}, map[subject]int{}
	var list []problem
	for _, p := range found {
		untold[of(p)] += p.untold
		if told[of(p)]++; told[of(p)] <= maxTold {
			list = append(list, p)
		} else {
			untold[of(p)]++
		}
	}
	for _, p := range list {
		if more := untold[of(p)]; more > 0 {
			delete(untold, of(p))
			p.message = fmt.Sprintf("the same holds for %d more of its parts", more)
			list = append(list, p)
		}
	}
	return list
}

// complaints collect what is wrong with the parts of one object, of which users write a thousand. The first of a reason are
// put into words, the others are counted: see few.
type complaints struct {
	kind  string
	meta  *metav1.ObjectMeta
	list  []problem
	count map[string]int // by reason
}

func newComplaints(kind string, meta *metav1.ObjectMeta) *complaints {
	return &complaints{kind: kind, meta: meta}
}

// add takes in a problem of a part; words are its message.
func (c *complaints) add(reason string, words func() string) {
	if c.counts(reason) {
		c.list = append(c.list, problemf(c.kind, c.meta, reason, "%s", words()))
	}
}

// limit is add of what limitf is.
func (c *complaints) limit(reason string, words func() string) {
	if c.counts(reason) {
		c.list = append(c.list, limitf(c.kind, c.meta, reason, "%s", words()))
	}
}

// counts counts one more, and says whether it is told.
func (c *complaints) counts(reason string) bool {
	if c.count == nil { // of most objects nothing is wrong
		c.count = map[string]int{}
	}
	c.count[reason]++
	return c.count[reason] <= maxTold
}

// problems are those that are told, the last of each reason with the number of the others. It is called once.
func (c *complaints) problems() []problem {
	for i, p := range slices.Backward(c.list) {
		if more := c.count[p.reason] - maxTold; more > 0 {
			delete(c.count, p.reason)
			c.list[i].untold = more
		}
	}
	return c.list
}

// limitf is a problem that is not the user's: something was left out that a datapath cannot do.
func limitf(kind string, meta *metav1.ObjectMeta, reason, format string, args ...any) problem {
	p := problemf(kind, meta, reason, format, args...)
	p.lasting = true
	return p
}

// reference is how an Event names its object.
func (p problem) reference() *corev1.ObjectReference {
	version := "v1"
	switch p.kind {
	case sliceKind.String():
		version = "discovery.k8s.io/v1"
	case serviceCIDRKind.String():
		version = networkingv1.SchemeGroupVersion.String()
	case networkPolicyKind.String():
		version = networkingv1.SchemeGroupVersion.String()
	case clusterPolicyKind.String():
		version = clusterPolicies.GroupVersion().String()
	case adminPolicyKind.String(), baselinePolicyKind.String():
		version = adminPolicies.GroupVersion().String()
	case egressKind.String(), poolKind.String():
		version = v1alpha1.GroupVersion.String()
	}
	return &corev1.ObjectReference{Kind: p.kind, APIVersion: version,
		Namespace: p.meta.Namespace, Name: p.meta.Name, UID: p.meta.UID, ResourceVersion: p.meta.ResourceVersion}
}

func (p problem) String() string {
	return fmt.Sprintf("%s %s: %s: %s", p.kind, key(p.meta.Namespace, p.meta.Name), p.reason, p.message)
}

// What users write may be long: an annotation has 256 KiB. An Event's message has 1,024 bytes, and what
// it quotes must leave room for the remedy.
const (
	maxMessage = 1024
	maxQuoted  = 200
)

// quoted is a user's text as a message may have it.
func quoted(text string) string { return cut(text, maxQuoted) }

// cut keeps at most limit bytes of a text, and whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}

// lastingAnnotation marks the Event of a lasting problem with what tells it from others.
const lastingAnnotation = "weft.net/lasting"

// annotations are those of a problem's Event.
func (p problem) annotations() map[string]string {
	if !p.lasting {
		return nil
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%s", p.meta.UID, p.reason, p.message)
	return map[string]string{lastingAnnotation: fmt.Sprintf("%016x", h.Sum64())}
}
