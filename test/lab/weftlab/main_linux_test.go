package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// weftlab runs the program with these arguments and returns how it failed.
func weftlab(t *testing.T, args ...string) error {
	t.Helper()
	root := rootCommand()
	root.SetArgs(args)
	return root.ExecuteContext(t.Context())
}

func TestEveryVerbRefusesANameThatIsNone(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	precious := filepath.Join(home, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range rootCommand().Commands() {
		if verb.Hidden {
			continue
		}
		for _, name := range []string{"", "..", ".", "a/b", "Weft", "-"} {
			args := append([]string{"--name=" + name, verb.Name()}, argumentsOf(verb)...)
			if err := weftlab(t, args...); err == nil || !strings.Contains(err.Error(), "--name") {
				t.Errorf("%s: the error is: %v", strings.Join(args, " "), err)
			}
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// argumentsOf are as many as the verb wants.
func argumentsOf(verb *cobra.Command) []string {
	for args := []string{}; ; args = append(args, "x") {
		if verb.Args == nil || verb.Args(verb, args) == nil {
			return args
		}
	}
}

func TestAnEmptyStateDirectoryIsNotTheUsualOne(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if err := weftlab(t, "--state-dir=", "down"); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("the error is: %v", err)
	}
}

func TestDownSparesWhatIsNoLab(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := weftlab(t, "--state-dir", dir, "down"); err == nil || !strings.Contains(err.Error(),
		"is not a lab's state directory") {
		t.Errorf("the error is: %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestMistakesAreToldInPlainWords(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for args, want := range map[string]string{
		"up --ipv6 --dual":                       "--ipv6 and --dual exclude each other",
		"up --linux x":                           `--linux "x": a whole number is wanted`,
		"up --linux 0":                           "--linux 0: a lab has 1 to 99 nodes",
		"up --linux 100":                         "--linux 100: a lab has 1 to 99 nodes",
		"up --timeout soon":                      `--timeout "soon": a duration is wanted`,
		"up --hosts c1,x1":                       `"x1" is no host's name`,
		"up --hosts c1:sid":                      `c1 has the release "sid"; there are bookworm and trixie`,
		"up --hosts c1,l1,c1":                    "there are two hosts c1",
		"up --hosts c1 --linux 2":                "leave out --linux",
		"up --hosts l1 --windows 99":             "a lab has up to 99 nodes in all",
		"up --zones 5":                           "--zones 5: a lab has up to 4 zones",
		"up --hosts c1 --zones 2":                "leave out --zones, or --hosts",
		"reset":                                  "accepts 1 arg(s)",
		"up --nodes 3":                           "`weftlab up --help` lists the flags",
		"e2e --focus [":                          "--focus: error parsing regexp",
		"e2e --skip (":                           "--skip: error parsing regexp",
		"conformance --run (":                    "--run: error parsing regexp",
		"conformance --run CNP --report r.yaml":  "--run and --report exclude each other",
		"status":                                 `lab "weft" is not up; ` + "`" + os.Args[0] + " up` starts it",
		"--name two status":                      `lab "two" is not up; ` + "`" + os.Args[0] + " --name two up` starts it",
		"--name two --state-dir /nowhere logs x": "`" + os.Args[0] + " --name two --state-dir /nowhere up` starts it",
	} {
		if err := weftlab(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is: %v", args, err)
		}
	}
}

func TestCommandsForTheShellAreQuoted(t *testing.T) {
	o := options{name: defaultName, stateDir: "/Bob's labs"}
	if got, want := o.command("up"), os.Args[0]+` --state-dir '/Bob'\''s labs' up`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestTheManualNamesEveryVerbAndFlag(t *testing.T) {
	text, err := os.ReadFile("../../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(text)
	for _, verb := range rootCommand().Commands() {
		if verb.Hidden {
			continue
		}
		if !strings.Contains(manual, "`"+verb.Name()) {
			t.Errorf("the manual lacks %s", verb.Name())
		}
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(manual, "--"+f.Name) {
				t.Errorf("the manual lacks --%s of %s", f.Name, verb.Name())
			}
		})
	}
	rootCommand().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(manual, "--"+f.Name) {
			t.Errorf("the manual lacks --%s", f.Name)
		}
	})
}

// Where there is no terminal, whoever waits hears every ten seconds what for.
func TestProgressSpeaksWithoutATerminal(t *testing.T) {
	var out strings.Builder
	now := time.Now()
	p := &progress{out: &out, now: func() time.Time { return now }, spoke: now}
	for range 25 {
		now = now.Add(time.Second)
		p.Waiting("nodes", "w1 is not\nready")
	}
	p.Reached("nodes", 25*time.Second)
	now = now.Add(9 * time.Second)
	p.Waiting("DNS", "no answer")
	const want = "  … nodes: w1 is not ready\n  … nodes: w1 is not ready\n   25.0 s  nodes\n"
	if out.String() != want {
		t.Errorf("it says %q, wanted %q", out.String(), want)
	}
}
