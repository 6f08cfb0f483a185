// Package labtest runs a lab for the tests of a package: weftlab's verbs, and waiting for what they bring about.
package labtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lab is a lab that weftlab runs.
type Lab struct {
	Name string
	// StandIn: its Windows nodes have no emulated extension, so nobody knows what their packets have met.
	StandIn bool
}

// Repository is the folder of the repository: that of the folder test, below which its tests on labs run.
func Repository() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	const tests = "/test/"
	return dir[:strings.LastIndex(dir, tests)]
}

// Command is a verb of weftlab, not started yet.
func (l Lab) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(Repository(), "bin/weftlab"), append([]string{"--name", l.Name}, args...)...)
	cmd.Dir = Repository()
	return cmd
}

// Running says whether the lab is up already.
func (l Lab) Running() bool { return l.Command("status").Run() == nil }

// Up brings the lab up, and shows what it says.
func (l Lab) Up(args ...string) error {
	if err := shown(l.Command(append([]string{"up"}, args...)...)); err != nil {
		return fmt.Errorf("bring up lab %s: %w", l.Name, err)
	}
	return nil
}

// Run runs a package's tests. They fail, too, if packets of a Windows node have met what Windows does not do, or if
// that is not known.
func (l Lab) Run(m interface{ Run() int }) int {
	code := m.Run()
	if l.StandIn {
		return code
	}
	names, err := l.Try("executed")
	if names != "" {
		fmt.Println("datapath actions of Windows nodes:\n" + names)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Down takes the lab down.
func (l Lab) Down() {
	if err := shown(l.Command("down")); err != nil {
		fmt.Fprintf(os.Stderr, "take down lab %s: %v\n", l.Name, err)
	}
}

func shown(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// Try runs a verb of weftlab and returns what it printed; the error holds what it complained of.
func (l Lab) Try(args ...string) (string, error) { return l.TryWith("", args...) }

// Shown is Try of what takes hours: its output is shown as it comes, too.
func (l Lab) Shown(args ...string) (string, error) {
	cmd := l.Command(args...)
	var said bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stdout, &said)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	return said.String(), err
}

// TryWith is Try with a standard input.
func (l Lab) TryWith(stdin string, args ...string) (string, error) {
	cmd := l.Command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("weftlab %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(),
			stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Must is Try that must not fail.
func (l Lab) Must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.Try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// On runs a command on a machine, as root.
func (l Lab) On(t testing.TB, machine string, command ...string) string {
	t.Helper()
	return l.Must(t, append([]string{"exec", machine, "--"}, command...)...)
}

// In runs a command in a pod of the default namespace.
func (l Lab) In(pod string, command ...string) (string, error) {
	return l.Try(append([]string{"kubectl", "--", "exec", pod, "--"}, command...)...)
}

// Kubectl asks the lab's API server.
func (l Lab) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return l.Must(t, append([]string{"kubectl", "--"}, args...)...)
}

// Apply creates what a manifest says, and has it removed when the test ends; deletion are further options of that,
// which waits for nothing by itself.
func (l Lab) Apply(t testing.TB, manifest string, deletion ...string) {
	t.Helper()
	if out, err := l.TryWith(manifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
	remove := append([]string{"kubectl", "--", "delete", "-f", "-", "--ignore-not-found", "--grace-period=1",
		"--wait=false"}, deletion...)
	t.Cleanup(func() {
		if out, err := l.TryWith(manifest, remove...); err != nil {
			t.Error(out, err)
		}
	})
}

// Eventually polls a condition until it holds, or an idle machine's limit has passed several times, and a minute as
// well; the last error is the story.
func Eventually(t testing.TB, within time.Duration, what string, condition func() error) {
	t.Helper()
	if err := Poll(within, condition); err != nil {
		t.Fatalf("%s, not within %s: %v", what, within, err)
	}
}

const (
	// slower is how many times longer a machine takes that runs other tests at the same time.
	slower = 3
	// shortest is for what an idle machine does in moments. A busy one may leave a process without a processor for many
	// seconds.
	shortest = time.Minute
)

// Poll is Eventually that returns the last error. Between two looks it rests as long as a look takes: tests that wait
// side by side leave the machine to what they wait for.
func Poll(within time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(slower*within, shortest))
	defer cancel()
	for {
		began := time.Now()
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(time.Since(began), 200*time.Millisecond)):
		}
	}
}
