package trace

import (
	"context"
	"fmt"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

func everything(context.Context, string) (bool, error) { return true, nil }

// spec reads a question as "pod shop/web > Service shop/db 3306".
func spec(t testing.TB, text string) api.TraceSpec {
	t.Helper()
	from, to, _ := strings.Cut(text, " > ")
	end := func(text string) (e api.TraceEnd, rest string) {
		words := strings.Fields(text)
		e.Kind, e.Name = words[0], words[1]
		if namespace, name, ok := strings.Cut(e.Name, "/"); ok {
			e.Namespace, e.Name = namespace, name
		}
		return e, strings.Join(words[2:], " ")
	}
	var s api.TraceSpec
	s.Source, _ = end(from)
	s.Destination, to = end(to)
	for _, word := range strings.Fields(to) {
		switch word {
		case "udp", "sctp":
			s.Protocol = word
		case ipv6:
			s.Family = word
		default:
			s.Port = word
		}
	}
	return s
}

// story is what a status tells, a line each.
func story(s *api.TraceStatus) string {
	var b strings.Builder
	for _, way := range [][]api.TraceStep{s.Request, s.Reply} {
		for _, step := range way {
			fmt.Fprintf(&b, "%s %s: %s\n", step.Node, step.Kind, step.Text)
		}
		b.WriteString("--\n")
	}
	fmt.Fprintf(&b, "%s: %s\n", s.Result, s.Reason)
	return b.String()
}

// TestTracesOfARealOVN asks about a cluster that a controller has written and ovn-northd has translated.
func TestTracesOfARealOVN(t *testing.T) {
	c := newCluster(t, readObjects(t, "testdata/cluster.yaml"), "shop_asleep")
	for _, ask := range []struct {
		question, result string
		want             []string // in the story, in this order
	}{
		{"Pod shop/web > Pod shop/cart 80", api.Arrives, nil},
		{"Pod shop/web > Pod shop/db 3307", api.Arrives, nil},
		{"Pod shop/web > Pod shop/db 3307 IPv6", api.Arrives, nil},
		{"Pod shop/cart > Pod shop/db 3307", api.Refused, nil},
		{"Pod shop/web > Pod bank/safe 3307", api.Refused, nil},
		{"Pod shop/web > Service shop/db sql", api.Arrives, nil},
		{"Pod shop/web > Service shop/empty", api.Refused, nil},
		{"Pod shop/web > Address 10.96.0.99 80", api.Refused, nil},
		{"Pod shop/web > Address 198.51.100.1 443", api.Arrives, nil},
		{"Pod shop/web > Address 2001:db8:9::1", api.Arrives, nil},
		{"Pod shop/web > Pod shop/asleep 80", api.Lost, nil},
		{"Node l1 > Pod shop/cart 80", api.Arrives, nil},
		{"Pod shop/web > Node l1 22", api.Arrives, nil},
		{"Pod shop/web > Node l2 22", api.Arrives, nil},
		{"Node l1 > Service shop/db", api.Refused, nil},
	} {
		t.Run(ask.question, func(t *testing.T) {
			status, err := c.Trace(t.Context(), spec(t, ask.question), everything)
			if err != nil {
				t.Fatal(err)
			}
			text := story(status)
			t.Log(text)
			rest := text
			for _, word := range ask.want {
				_, after, found := strings.Cut(rest, word)
				if !found {
					t.Fatalf("it does not tell %q here", word)
				}
				rest = after
			}
			if status.Result != ask.result {
				t.Errorf("the result is %s, want %s", status.Result, ask.result)
			}
		})
	}
}
