// Package ovsdb keeps a replica of some tables of an OVSDB database (RFC 7047) and brings the rows
// that weft owns in it into a desired state.
//
// A walk from the outside in:
//
//   - [Connect] gives a [Client]: it finds the cluster's leader, or a member that has all that was read
//     before (member.go), reads the columns that it was told of, follows their changes, and connects
//     again when it must. [Get], [List] and [Client.WaitFor] look into its replica.
//   - [NewEngine] gives an [Engine]: [Engine.Claim] ends former writers (fence.go), [Engine.Replace]
//     takes the whole desired state as [Change]s, [Engine.Apply] some of them (engine.go). A call is
//     an attempt (attempt.go). Each change is compared with the replica (plan.go), and with what its
//     owner was given before (ledger.go). What differs goes into a batch of many owners (batch.go), a
//     transaction. Several are in flight (pipeline.go). A refused one is taken apart until the guilty
//     owner stands alone.
//   - [Engine.Watch] tells whose rows others have changed since a Replace (events.go, watch.go). It
//     finds the values of sets that are not as they are claimed (audit.go), and repairs them
//     (mend.go).
//   - [Dump] prints the replica for people and for tests.
//
// The server sends the changes that a transaction made before it answers the transaction, and the
// session's reader takes them in that order. So when an answer is there the replica has it all:
// the engine never waits for its own writes to come back, and tells them from others' by what they
// made of a row: the server may tell both in one update.
//
// Nothing waits for a server that has stopped: requests lie in the session's outbox until its
// writer gets rid of them, a call ends with its context, and a server that for two intervals of
// the probe says or takes nothing is left (session.go). The probe follows the time in which the replica was read.
//
// The connection and the replica are weft's own and not libovsdb's client, from whose project the
// models, the schemas and the server in memory come: that client refuses a server whose schema
// lacks any column of a model, drops events when its queue is full, and copies a whole row to
// change it or, mostly, to read it. docs/architecture.md has more.
package ovsdb
