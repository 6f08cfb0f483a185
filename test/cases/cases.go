// Package cases has tests that compute much try less of it where they are asked to be short.
//
// `make unit` asks for that with the race detector, with which they take several times as long: it finds in few cases
// what it finds in many. Then it runs the same tests once more, with all their cases and without it. It knows them by
// their names, in MANY_CASES of the Makefile.
package cases

import "testing"

// least is how many cases are tried however short tests are.
const least = 2

// Of is how many of a test's cases it tries: all of them, or a tenth where tests are short.
func Of[N int | uint64](all N) N {
	if !testing.Short() {
		return all
	}
	return min(all, max(least, all/10))
}

// Long ends a test that has no fewer cases where tests are short.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it computes for long, and tests are short")
	}
}
