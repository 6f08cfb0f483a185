// Package companion runs programs beside a test, such as those that hold connections while it breaks something.
package companion

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// Program is one that runs until its input ends.
type Program struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

// Start runs a program that prints a word on a line of its own when it is ready. It ends with the test, if not before.
func Start(t testing.TB, ready string, cmd *exec.Cmd) *Program {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // it may be closed already
		_ = cmd.Wait()    // and it waited for
	})
	p := &Program{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	p.lines.Buffer(nil, 1<<20)
	if !p.lines.Scan() || p.lines.Text() != ready {
		t.Fatalf("%q says %q instead of %q: %s", cmd.Args, p.lines.Text(), ready, stderr.String())
	}
	return p
}

// Stop ends a program and returns what it has printed since it was ready, a JSON value a line.
func Stop[T any](t testing.TB, p *Program) []T {
	t.Helper()
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	var values []T
	for p.lines.Scan() {
		var value T
		if err := json.Unmarshal(p.lines.Bytes(), &value); err != nil {
			t.Fatalf("%q says %q: %v", p.cmd.Args, p.lines.Text(), err)
		}
		values = append(values, value)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%q: %v", p.cmd.Args, err)
	}
	return values
}
