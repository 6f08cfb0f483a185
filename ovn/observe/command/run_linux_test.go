package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// usePrograms puts OVN's programs on PATH.
func usePrograms(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", filepath.Dir(ovsdbtest.Program(t, "ovn-nbctl"))+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestCommandsAreThePrograms': each is one of the program, with these options, and by its name none that writes.
func TestCommandsAreThePrograms(t *testing.T) {
	usePrograms(t)
	reads := regexp.MustCompile(`^(show|find|get|list|(.+-)?(list|get|dump-flows|count-flows)(-.+)?)$`)
	for _, tool := range Tools {
		text, err := exec.Command(tool.Program, "--commands").Output()
		if err != nil {
			t.Fatal(err)
		}
		options := map[string]string{}
		for line := range strings.Lines(string(text)) { // "[--option=] ,command,arguments"
			if parts := strings.SplitN(line, ",", 3); len(parts) == 3 {
				options[parts[1]] = parts[0]
			}
		}
		for command, own := range tool.commands {
			has, known := options[command]
			if !known || !reads.MatchString(command) {
				t.Errorf("%s %s is no command that reads", tool.Program, command)
			}
			for _, option := range own {
				if !strings.Contains(has, "["+option) {
					t.Errorf("%s %s has no option %s: %s", tool.Program, command, option, has)
				}
			}
		}
	}
}

// TestRunOfRealPrograms: their answers and their errors are told, and nothing is written whatever comes.
func TestRunOfRealPrograms(t *testing.T) {
	usePrograms(t)
	t.Setenv("OVN_NB_DB", "tcp:192.0.2.1:6641")
	northbound := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	nbctl := Tools[api.NorthboundCommand]
	run := func(arguments ...string) *api.OVNCommand {
		t.Helper()
		answer, err := nbctl.Run(t.Context(), northbound.Endpoint, arguments)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	write := exec.Command(nbctl.Program, "--db="+northbound.Endpoint, "ls-add", "l1")
	if text, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	names := []string{"--bare", "--columns=name", "list", "Logical_Switch"}
	if a := run(names...); a.ExitCode != 0 || strings.TrimSpace(a.Output) != "l1" || a.Errors != "" || a.Truncated ||
		a.Name != "nbctl" || !slices.Equal(a.Arguments, names) {
		t.Errorf("%+v", a)
	}
	if a := run("list", "Nonsense"); a.ExitCode == 0 || !strings.Contains(a.Errors, "Nonsense") {
		t.Errorf("%+v", a)
	}
	run("ls-add", "evil") // which Check would have refused
	if a := run("ls-list"); !strings.Contains(a.Output, "l1") || strings.Contains(a.Output, "evil") {
		t.Errorf("%+v", a)
	}
}

// TestBoundsOfARun: a program that says too much, that does not end, or that is not there.
func TestBoundsOfARun(t *testing.T) {
	folder := nodetest.Folder(t)
	script := filepath.Join(folder, "program")
	const talks = "#!/bin/sh\nhead -c 5000000 /dev/zero; echo wrong >&2; exit 7\n"
	if err := os.WriteFile(script, []byte(talks), 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := (&Tool{Name: "x", Program: script}).Run(t.Context(), "unix:/x", nil)
	if err != nil || len(a.Output) != maxOutput || !a.Truncated || a.Errors != "wrong\n" || a.ExitCode != 7 {
		t.Errorf("%v: %d bytes, %t, %q, %d", err, len(a.Output), a.Truncated, a.Errors, a.ExitCode)
	}
	if _, err := (&Tool{Program: "no-such-program-of-ovn"}).Run(t.Context(), "unix:/x", nil); err == nil ||
		!strings.Contains(err.Error(), "install OVN's client programs") {
		t.Error(err)
	}
}
