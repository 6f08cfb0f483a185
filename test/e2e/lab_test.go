//go:build cluster

// Package e2e tests Weft on a real cluster: `make cluster-test` builds what it needs and runs it.
package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var thorough = flag.Bool("thorough", false, "also what takes long: components that end in their orderly way, and more certificates")

var labName = flag.String("lab", "weft-test", "the cluster's name")

var keep = flag.Bool("keep", false, "leave the cluster up, and use it if it is up already")

var gateway = flag.String("gateway", "host", "where gateway routers have their addresses from: host or own, as weftlab up has it")

// uplinkMTU is that of ordinary Ethernet, unlike the lab's own: what a network in between does not take is
// told, and pods send fragments.
const uplinkMTU = 1500

// cluster is the dual-stack cluster of two Linux and two Windows nodes that all tests of the package
// share.
var cluster lab

var nodes = []string{"l1", "l2", "w1", "w2"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	cluster.name = *labName
	if !*keep {
		defer cluster.down()
	}
	if err := cluster.up("--linux", "2", "--windows", "2", "--dual", "--controllers", "2", "--gateway", *gateway, "--mtu", strconv.Itoa(uplinkMTU)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := deployWorkload(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// lab is a cluster that weftlab runs.
type lab struct{ name string }

func repository() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Dir(filepath.Dir(dir))
}

func (l lab) command(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(repository(), "bin/weftlab"), append([]string{"--name", l.name}, args...)...)
}

func (l lab) up(args ...string) error {
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

func (l lab) down() {
	cmd := l.command("down")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "take down lab %s: %v\n", l.name, err)
	}
}

// try runs a verb of weftlab and returns what it printed; the error holds what it complained of.
func (l lab) try(args ...string) (string, error) {
	return l.tryWith("", args...)
}

func (l lab) tryWith(stdin string, args ...string) (string, error) {
	cmd := l.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("weftlab %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

func (l lab) must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (l lab) kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return l.must(t, append([]string{"kubectl", "--"}, args...)...)
}

// apply creates what a manifest says, and removes it when the test ends.
func (l lab) apply(t testing.TB, manifest string) {
	t.Helper()
	if out, err := l.tryWith(manifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
	t.Cleanup(func() {
		if out, err := l.tryWith(manifest, "kubectl", "--", "delete", "--ignore-not-found", "--wait=false", "--grace-period=1", "-f", "-"); err != nil {
			t.Error(out, err)
		}
	})
}

// in runs a command in a pod of the default namespace.
func (l lab) in(pod string, command ...string) (string, error) {
	return l.try(append([]string{"kubectl", "--", "exec", pod, "--"}, command...)...)
}

// eventually polls a condition until it holds or the deadline passes; the last error is the story.
func eventually(t testing.TB, within time.Duration, what string, condition func() error) {
	t.Helper()
	if err := poll(within, condition); err != nil {
		t.Fatalf("%s, not within %s: %v", what, within, err)
	}
}

func poll(within time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
