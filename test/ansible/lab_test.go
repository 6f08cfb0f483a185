//go:build ansible

// Package ansible installs Weft by its playbooks on servers with a systemd of their own: `make test-ansible` builds what
// it needs and runs it.
package ansible

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var labName = flag.String("lab", "weft-ansible", "the lab's name")

var keep = flag.Bool("keep", false, "leave the lab up, and use it if it is up already")

// servers is the lab that all tests of the package share: three centrals and two Linux nodes, of both releases.
var servers cluster

var hosts = map[string]string{"c1": "bookworm", "c2": "bookworm", "c3": "bookworm", "l1": "bookworm", "l2": "trixie"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	servers.name = *labName
	dir, err := os.MkdirTemp("", "weft-ansible-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if current, err = copyRelease(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if !*keep {
		defer servers.down()
	}
	if err := servers.up("--hosts", "c1,c2,c3,l1,l2:trixie"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := keepFirstState(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// cluster is a lab that weftlab runs.
type cluster struct{ name string }

func repository() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Dir(filepath.Dir(dir))
}

func (l cluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(repository(), "bin/weftlab"), append([]string{"--name", l.name}, args...)...)
	cmd.Dir = repository()
	return cmd
}

func (l cluster) up(args ...string) error {
	if *keep && l.command("status").Run() == nil {
		return nil
	}
	cmd := l.command(append([]string{"up"}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bring up lab %s: %w", l.name, err)
	}
	return nil
}

func (l cluster) down() {
	cmd := l.command("down")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "take down lab %s: %v\n", l.name, err)
	}
}

// try runs a verb of weftlab and returns what it printed; the error holds what it complained of.
func (l cluster) try(args ...string) (string, error) { return l.tryWith("", args...) }

func (l cluster) tryWith(stdin string, args ...string) (string, error) {
	cmd := l.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("weftlab %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

func (l cluster) must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// on runs a command on a host, as root.
func (l cluster) on(t testing.TB, host string, command ...string) string {
	t.Helper()
	return l.must(t, append([]string{"exec", host, "--"}, command...)...)
}

func (l cluster) kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return l.must(t, append([]string{"kubectl", "--"}, args...)...)
}

// apply creates what a manifest says, and removes it when the test ends.
func (l cluster) apply(t testing.TB, manifest string) {
	t.Helper()
	if out, err := l.tryWith(manifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
	t.Cleanup(func() {
		if out, err := l.tryWith(manifest, "kubectl", "--", "delete", "--ignore-not-found", "--grace-period=1", "--timeout=60s", "-f", "-"); err != nil {
			t.Error(out, err)
		}
	})
}

// eventually polls a condition until it holds or the deadline passes; the last error is the story.
func eventually(t testing.TB, within time.Duration, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s, not within %s: %v", what, within, err)
		case <-ticker.C:
		}
	}
}
