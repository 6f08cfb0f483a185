package ovsdb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrDisconnected is wrapped by the error of a call whose connection broke before its answer
// came. Whether the server did the work is unknown; an engine finds out when it is called again.
var ErrDisconnected = errors.New("the connection to the database server broke")

// ErrFenced is the error of a call after somebody else has claimed the engine's fence: nothing of the
// refused transaction is done, and nothing more is, until [Engine.Claim] succeeds.
var ErrFenced = errors.New("another writer has claimed the database")

// ErrClosed is the error of a call to a client that was closed.
var ErrClosed = errors.New("the database client is closed")

// RefusedError says whose changes could not be made; those of all other owners are committed.
type RefusedError struct {
	Owners map[Owner]error
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the database refused %d changes", len(e.Owners))
	for i, owner := range slices.Sorted(maps.Keys(e.Owners)) {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(e.Owners)-i)
			break
		}
		fmt.Fprintf(&b, "; %s: %v", owner, e.Owners[owner])
	}
	return b.String()
}

// OperationError is an operation that the server refused, with the whole transaction.
type OperationError struct {
	// Kind is the server's word for it, such as "constraint violation".
	Kind    string
	Details string
}

func (e *OperationError) Error() string {
	if e.Details == "" {
		return e.Kind
	}
	return e.Kind + ": " + e.Details
}
