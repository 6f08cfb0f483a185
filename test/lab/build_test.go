package lab

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTargetsBuildWhatTheyUse: the official tests, which take minutes to compile, are built for the targets that run
// them alone.
func TestTargetsBuildWhatTheyUse(t *testing.T) {
	official := []string{"e2e.test", "ginkgo", "policy-conformance"}
	for target, wanted := range map[string]bool{"demo": false, "cluster-test": false, "bench": false, "unit": false,
		"e2e": true, "test-ansible": true} {
		command := exec.Command("make", "--no-print-directory", "-Bn", target)
		command.Dir = "../.."
		command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
			return strings.HasPrefix(variable, "MAKE")
		})
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("make -Bn %s: %v\n%s", target, err, out)
		}
		if target != "unit" && !strings.Contains(string(out), "bin/weftlab images") {
			t.Errorf("make %s does not make the lab", target)
		}
		for _, program := range official {
			if built := strings.Contains(string(out), "bin/lab/"+program+" "); built != wanted {
				t.Errorf("make %s builds %s: %t, wanted %t", target, program, built, wanted)
			}
		}
	}
}

// TestSlowStepsSayHowFarTheyAre: nobody waits for a silent `make demo`. What a step runs that is no part of a system
// goes by progress.sh.
func TestSlowStepsSayHowFarTheyAre(t *testing.T) {
	command := exec.Command("make", "--no-print-directory", "-Bn", "demo")
	command.Dir = "../.."
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE")
	})
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("make -Bn demo: %v\n%s", err, out)
	}
	recipes := strings.Split(strings.ReplaceAll(string(out), "\\\n", " "), "\n")
	slow := regexp.MustCompile(`\bgo (build|test|mod)\b|\bscripts/[a-z-]+\.sh\b|\bbin/weftlab\b`)
	// These say so by themselves.
	bySelf := regexp.MustCompile(`^(test/lab/scripts/deps\.sh|test/demo/demo\.sh up|echo .*)$`)
	steps := 0
	for _, recipe := range recipes {
		if recipe = strings.TrimSpace(recipe); !slow.MatchString(recipe) || bySelf.MatchString(recipe) {
			continue
		}
		steps++
		if !strings.Contains(recipe, "progress.sh ") {
			t.Errorf("silent: %s", recipe)
		}
	}
	if steps < 10 {
		t.Errorf("%d slow steps in\n%s", steps, out)
	}
	install, err := os.ReadFile("scripts/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(install), "progress.sh") {
		t.Error("scripts/install.sh installs packages in silence")
	}
}

// TestProgress: whoever waits hears how far a build is, sees what a command wrote only if it fails, and gets its
// status.
func TestProgress(t *testing.T) {
	const stub = `#!/bin/sh
case $1 in
list) echo "go: downloading example.org/a v1.0.0" >&2; printf 'a\nb\nc\n' ;;
build) echo a >&2; echo b >&2; read _ < held; echo "./x.go:1:1: undefined: y" >&2; exit 4 ;;
test) echo a >&2; echo b >&2; echo c >&2; read _ < held ;;
esac
`
	for _, c := range []struct {
		name, said string
		command    []string
		status     int
		shown      string
	}{
		{"a build that fails", "2 of 3 packages compiled", []string{"go", "build", "-o", "x", "./x"}, 4, "undefined: y"},
		{"a test that is linked", "all packages compiled, linking", []string{"go", "test", "-c", "-o", "x", "./x"}, 0, ""},
		{"another command", "unpacking one", []string{"sh", "-c", "echo unpacking one; read _ < held; echo unpacked"}, 0, ""},
		{"another command that fails", "unpacking one", []string{"sh", "-c", "echo unpacking one; read _ < held; echo no " +
			"room; exit 3"}, 3, "no room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			script, err := filepath.Abs("scripts/progress.sh")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "go"), []byte(stub), 0o755); err != nil {
				t.Fatal(err)
			}
			held := filepath.Join(dir, "held")
			if out, err := exec.Command("mkfifo", held).CombinedOutput(); err != nil {
				t.Fatalf("mkfifo: %v: %s", err, out)
			}
			cmd := exec.CommandContext(t.Context(), script, append([]string{"building it"}, c.command...)...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "WEFT_PROGRESS_SECONDS=1")
			var complaints strings.Builder
			cmd.Stderr = &complaints
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said := until(t, out, c.said)
			if err := os.WriteFile(held, []byte("\n"), 0); err != nil { // the command goes on
				t.Fatal(err)
			}
			rest := until(t, out, "")
			_ = cmd.Wait() // its status is looked at
			if status := cmd.ProcessState.ExitCode(); status != c.status {
				t.Errorf("status %d, wanted %d: %s%s%s", status, c.status, said, rest, complaints.String())
			}
			if !strings.HasPrefix(said, "lab: building it\n") {
				t.Errorf("it begins with %q", said)
			}
			if c.shown == "" && complaints.Len() > 0 || !strings.Contains(complaints.String(), c.shown) {
				t.Errorf("shown: %q, wanted %q", complaints.String(), c.shown)
			}
		})
	}
}

// until reads lines until one contains the text, or to the end if it is empty.
func until(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	var said strings.Builder
	buffer := make([]byte, 1)
	for text == "" || !strings.Contains(said.String(), text) || buffer[0] != '\n' {
		n, err := from.Read(buffer)
		if err == io.EOF && text == "" {
			break
		}
		if err != nil {
			t.Fatalf("%q is never said, but %q: %v", text, said.String(), err)
		}
		said.Write(buffer[:n])
	}
	return said.String()
}
