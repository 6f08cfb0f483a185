package tenure

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

const limit = 6 * time.Second

// step is what happens at a time, and what holds then.
type step struct {
	at    time.Duration
	what  string // "renewed", "ended", or "" to look only
	took  time.Duration
	first bool // a renewal begins a term
	lives bool // there is a term
	terms int  // there have been
}

// Terms end by the clock, which is the test's own.
func TestTermsEndWithoutRenewal(t *testing.T) {
	for name, steps := range map[string][]step{
		"a term begins with a renewal and ends without another": {
			{at: 0},
			{at: 2 * time.Second, what: "renewed", first: true, lives: true, terms: 1},
			{at: 8*time.Second - 1, lives: true, terms: 1},
			{at: 8 * time.Second, terms: 1},
		},
		"a renewal counts from the beginning of its request": {
			{at: 2 * time.Second, what: "renewed", took: 2 * time.Second, first: true, lives: true, terms: 1},
			{at: limit - 1, lives: true, terms: 1},
			{at: limit, terms: 1},
		},
		"a renewal in time extends the term": {
			{at: 0, what: "renewed", first: true, lives: true, terms: 1},
			{at: 3 * time.Second, what: "renewed", lives: true, terms: 1},
			{at: 9*time.Second - 1, what: "renewed", lives: true, terms: 1},
			{at: 15*time.Second - 2, lives: true, terms: 1},
			{at: 15 * time.Second, terms: 1},
		},
		"a renewal that was too long under way begins none": {
			{at: limit, what: "renewed", took: limit},
			{at: limit, what: "renewed", took: limit - 1, first: true, lives: true, terms: 1},
			{at: limit + 1, terms: 1},
		},
		"a renewal that was too long under way extends none": {
			{at: 0, what: "renewed", first: true, lives: true, terms: 1},
			{at: limit, what: "renewed", took: limit, terms: 1},
		},
		"a renewal after the end begins another": {
			{at: 0, what: "renewed", first: true, lives: true, terms: 1},
			{at: limit, what: "renewed", first: true, lives: true, terms: 2},
			{at: 2 * limit, terms: 2},
		},
		"a term that was ended is over at once": {
			{at: 0, what: "renewed", first: true, lives: true, terms: 1},
			{at: 1, what: "ended", terms: 1},
			{at: 2, what: "renewed", first: true, lives: true, terms: 2},
		},
		"without a term there is none to end": {{at: 0, what: "ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				terms, begun := NewTerms(limit), time.Now()
				defer terms.End()
				var all []*Term
				for i, s := range steps {
					time.Sleep(s.at - time.Since(begun))
					first := false
					switch s.what {
					case "renewed":
						first = terms.Renewed(time.Now().Add(-s.took))
					case "ended":
						terms.End()
					}
					now := terms.Current()
					if first != s.first || (now != nil) != s.lives || terms.Count() != s.terms {
						t.Fatalf("step %d: it begins a term: %t, there is one: %t, of %d; want %+v", i, first, now != nil,
							terms.Count(), s)
					}
					if first {
						all = append(all, now)
					}
					synctest.Wait() // for timers
					for n, term := range all {
						over := n < len(all)-1 || !s.lives
						if term.Over() != over || (term.Err() != nil) != over {
							t.Errorf("step %d: term %d is over: %t, and its context: %v", i, n+1, term.Over(), term.Err())
						}
					}
				}
			})
		})
	}
}

// A term ends with the context that it was made of, and no renewal brings it back.
func TestATermEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	term := NewTerm(ctx, time.Hour)
	if !term.Over() || term.Err() != nil {
		t.Error("a term begins before its first renewal, or ends")
	}
	if !term.Renewed(time.Now()) || term.Over() {
		t.Error("a renewal does not begin the term")
	}
	cancel()
	if !term.Over() || term.Renewed(time.Now()) || !term.Over() {
		t.Error("a term goes on after its context")
	}
}

// A request leaves time for another one before the term is over.
func TestRequestsAreGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, begin := range []func(context.Context) (context.Context, context.CancelFunc){
			NewTerm(t.Context(), limit).Request, NewTerms(limit).Request,
		} {
			ctx, cancel := begin(t.Context())
			defer cancel()
			if end, ok := ctx.Deadline(); !ok || time.Until(end) != limit/2 {
				t.Errorf("a request is given up after %s", time.Until(end))
			}
		}
	})
}

func TestHolder(t *testing.T) {
	me, nobody := "me", ""
	for name, c := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"no Lease":   {nil, ""},
		"a new one":  {&coordinationv1.Lease{}, ""},
		"given back": {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &nobody}}, ""},
		"held":       {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &me}}, "me"},
	} {
		if got := Holder(c.lease); got != c.want {
			t.Errorf("%s: %q holds it, want %q", name, got, c.want)
		}
	}
}

// The last third of a Lease's duration is for a holder that notices late.
func TestLimit(t *testing.T) {
	if got := Limit(15 * time.Second); got != 10*time.Second {
		t.Errorf("a Lease of 15 s lets its holder act for %s", got)
	}
}
