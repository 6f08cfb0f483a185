// Package reasons has the types of the reasons that Weft gives in Events and conditions. Whatever writes one of these
// asks for such a reason and takes no mere text. So each reason is a variable of the package that gives it, with its
// meaning and remedy, and docs/reference lists them all.
package reasons

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Event is a reason for an Event.
type Event struct {
	Name string // in CamelCase, for machines
	// On are the kinds of the objects that get the Event.
	On string
	// Meaning says what is so, in sentences.
	Meaning string
	// Remedy says what to do, in sentences; empty: nothing.
	Remedy string
	// See is the section that says more, below docs; empty: none.
	See string
	// Normal: it is news and no warning.
	Normal bool
}

func (e *Event) String() string { return e.Name }

// Type is the type of the Event.
func (e *Event) Type() string {
	if e.Normal {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// IsWarning says whether one of Weft's programs writes Warnings with a reason of this name. Others who may write Events
// can use the name, too.
func IsWarning(name string) bool {
	_, is := slices.BinarySearch(warnings, name)
	return is
}

// Condition is a reason that the condition of an object has: Ready, or of a Node WeftReady.
type Condition struct {
	Name string // in CamelCase, for machines
	// On are the kinds of the objects that have the condition.
	On string
	// Ready says whether the condition's status is True. Else it is False.
	Ready bool
	// Meaning says what is so, in sentences.
	Meaning string
	// Remedy says what to do, in sentences; empty: nothing.
	Remedy string
}
