package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// expect compares the states of findings with "ok", "failed mtu", … and looks for words in their texts.
func expect(t *testing.T, findings []Finding, states string, words ...string) {
	t.Helper()
	var got, text []string
	for _, f := range findings {
		got = append(got, string(f.State))
		text = append(text, f.Detail, f.Remedy)
		if f.State == Failed && f.Remedy == "" {
			t.Errorf("%s has failed and there is no remedy: %s", f.Check, f.Detail)
		}
		if f.State == OK && f.Remedy != "" {
			t.Errorf("%s is ok and has a remedy: %s", f.Check, f.Remedy)
		}
	}
	if strings.Join(got, " ") != states {
		t.Errorf("got %q, want %q:\n%s", strings.Join(got, " "), states, strings.Join(text, "\n"))
	}
	for _, word := range words {
		if !strings.Contains(strings.Join(text, "\n"), word) {
			t.Errorf("no %q in:\n%s", word, strings.Join(text, "\n"))
		}
	}
}

var errBroken = errors.New("broken")

func TestAHangingCheckHoldsUpNoOther(t *testing.T) { synctest.Test(t, hangingCheck) }

func hangingCheck(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	findings := runChecks(t.Context(), time.Second, []check{
		{"first", func(context.Context) []Finding { return subject("first").ok("fine") }},
		{"hangs", func(context.Context) []Finding { <-release; return nil }},
		{"heeds", func(ctx context.Context) []Finding { <-ctx.Done(); return subject("heeds").unknown("", "gave up") }},
		{"last", func(context.Context) []Finding { return subject("last").failed("repair it", "bad") }},
	})
	var got []string
	for _, f := range findings {
		got = append(got, f.Check+" "+string(f.State))
	}
	want := []string{"first ok", "hangs unknown", "heeds unknown", "last failed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	expect(t, findings[1:3], "unknown unknown", "has not answered within 1s", "gave up")
}

func TestExitCodeTellsTheWorst(t *testing.T) {
	const s = subject("x")
	for _, c := range []struct {
		findings [][]Finding
		result   State
		code     int
	}{
		{nil, Unknown, 1},
		{[][]Finding{s.ok("")}, OK, 0},
		{[][]Finding{s.ok(""), s.unknown("", "")}, Unknown, 1},
		{[][]Finding{s.unknown("", ""), s.warning("", ""), s.ok("")}, Warning, 1},
		{[][]Finding{s.failed("", ""), s.warning("", ""), s.ok("")}, Failed, 2},
	} {
		var r Report
		for _, f := range c.findings {
			r.Findings = append(r.Findings, f...)
		}
		r.summarise()
		total := 0
		for _, n := range r.Counts {
			total += n
		}
		if r.Result != c.result || r.ExitCode() != c.code || total != len(r.Findings) {
			t.Errorf("%v: %s, exit code %d, counts %v; want %s, %d", c.findings, r.Result, r.ExitCode(), r.Counts, c.result,
				c.code)
		}
	}
}

func TestText(t *testing.T) {
	r := Report{Version: "v1", Node: "w1", OS: "windows", Time: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	r.Findings = append(r.Findings, subject("adapter").ok("Ethernet is up")...)
	r.Findings = append(r.Findings, subject("ovs-driver").failed("install it", "%s", strings.Repeat("word ", 20))...)
	r.summarise()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `weft doctor v1: node w1 (windows), 2026-05-04 03:02:01 UTC

ok           adapter               Ethernet is up
FAILED       ovs-driver            word word word word word word word word word word word word word word word
                                   word word word word word
                                   -> install it

1 ok, 0 warning, 1 failed, 0 cannot tell
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestConfigurationNamesEachProblem(t *testing.T) {
	expect(t, checkConfiguration(Config{}), "ok")
	problem := errors.Join(errors.New("a: wrong"), errors.Join(errors.New("b: wrong"), fmt.Errorf("c: %w", errBroken)))
	expect(t, checkConfiguration(Config{Problem: problem}), "failed failed failed", "a: wrong", "b: wrong", "c: broken")
}

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 5 << 30: "5.0 GiB",
		1 << 63: "8.0 EiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
