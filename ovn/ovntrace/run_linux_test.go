package ovntrace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program makes one of a script.
func program(t *testing.T, script string) *Program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ovn-trace")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := New(path, "unix:/run/sb.sock", 1)
	p.scope = func(_ context.Context, packet Packet) (*scope, error) { return newScope(&network{}, packet), nil }
	return p
}

// TestBounds: a run that prints too much, or takes too long, ends and is told.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		within             time.Duration
	}{
		{"prints too much", "head -c 67108864 /dev/zero; exec sleep 3600", "more than 1048576 bytes", time.Minute},
		{"does not end", "exec sleep 3600", "has not answered in time", 200 * time.Millisecond},
		{"fails", "echo no database >&2; exit 1", "no database", time.Minute},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.within)
		if text, err := program(t, c.script).Run(ctx, web(), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d bytes, %v, want %q", c.name, len(text), err, c.want)
		}
		cancel()
	}
	absent := program(t, "")
	absent.Path = "no-such-ovn-trace"
	if _, err := absent.Run(t.Context(), web(), nil); !errors.Is(err, exec.ErrNotFound) ||
		!strings.Contains(err.Error(), "ovn-common") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestArguments: the packet is one argument, and no variable of the door's is handed on.
func TestArguments(t *testing.T) {
	t.Setenv("OVN_SB_DB", "tcp:192.0.2.9:6642")
	text, err := program(t, `for argument; do echo "[$argument]"; done; echo "$OVN_SB_DB"`).Run(t.Context(), web(), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	expression, err := web().Expression()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(lines[0], "[--db=unix:"+filepath.Join(os.TempDir(), "weft-trace-")) ||
		lines[len(lines)-1] != "["+expression+"]" || strings.Count(text, "--ct=trk,new") != lookups {
		t.Errorf("the arguments are %s", text)
	}
}

// TestOneAtATime: a run waits until there is a place, and leaves when nobody waits for it.
func TestOneAtATime(t *testing.T) {
	p := program(t, "echo it ran")
	p.slots <- struct{}{}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(gone, web(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("without a place: %v", err)
	}
	<-p.slots
	if text, err := p.Run(t.Context(), web(), nil); err != nil || text != "it ran\n" {
		t.Errorf("with a place: %q, %v", text, err)
	}
}
