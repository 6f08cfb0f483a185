// Package part says what a part of the translation is, and has what all parts use.
//
// A [Part] is one subject: nodes, pods, Services, policies. It keeps what has to be remembered of its subject, and of
// which owners the rows may be others. Package ovn lists the parts, and asks all of them alike:
//
//	events ──► Take ──► Reconcile ──► Dirty, Change ──► Clean
//	           a Batch                 an Outcome for each owner, in the order of its Stage
//
// Take and Reconcile change what a part remembers. Dirty and Change are questions, and change nothing. Clean is told
// that the answers were handed out.
//
// Beside rows a part has an [Outbox]: for problems, for annotations and statuses of objects, and for the events that it
// expects. An [Event] is the key of an object, or a [Signal].
//
// Of packages below ovn it imports objects alone.
package part
