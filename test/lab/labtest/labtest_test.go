package labtest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/test/lab/labtest"
)

// weftlab writes down what it is told, and fails at the verb "fail".
const weftlab = `#!/bin/sh
printf '%s|%s\n' "$*" "$(cat | tr '\n' ' ')" >> told
echo " printed "
echo complaint >&2
test "$3" != fail
`

// newLab is one whose weftlab is the above; told is what it was told, and what stood in its input.
func newLab(t *testing.T) (l labtest.Lab, told func() string) {
	root := t.TempDir()
	for _, dir := range []string{"bin", "test/some"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "bin/weftlab"), []byte(weftlab), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "test/some"))
	return labtest.Lab{Name: "one"}, func() string {
		text, err := os.ReadFile(filepath.Join(root, "told"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
}

func TestVerbsAreOfTheLab(t *testing.T) {
	l, told := newLab(t)
	if out := l.On(t, "l1", "true"); out != "printed" {
		t.Errorf("printed %q", out)
	}
	if got := told(); got != "--name one exec l1 -- true|" {
		t.Errorf("told %q", got)
	}
	_, err := l.Try("fail", "now")
	if err == nil || !strings.Contains(err.Error(), "weftlab fail now") || !strings.Contains(err.Error(), "complaint") {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatAManifestMakesIsRemoved(t *testing.T) {
	l, told := newLab(t)
	t.Run("with a manifest", func(t *testing.T) { l.Apply(t, "kind: Pod", "--wait") })
	const want = "--name one kubectl -- apply -f -|kind: Pod\n" +
		"--name one kubectl -- delete -f - --ignore-not-found --grace-period=1 --wait=false --wait|kind: Pod"
	if got := told(); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

func TestPollEndsWithTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		if err := labtest.Poll(time.Minute, func() error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}); err != nil || tries != 3 {
			t.Errorf("%v after %d tries", err, tries)
		}
		never := errors.New("never")
		if err := labtest.Poll(10*time.Millisecond, func() error { return never }); !errors.Is(err, never) {
			t.Errorf("the error is %v", err)
		}
	})
}

// ended is a package's tests with that exit code.
type ended int

func (e ended) Run() int { return int(e) }

// The tests of a package end with the record of what the packets of its lab's Windows nodes have met.
func TestTestsEndWithTheRecord(t *testing.T) {
	const executed = "--name one executed|"
	for name, c := range map[string]struct {
		code, want int
		standIn    bool
		told       string
	}{
		"well":      {0, 0, false, executed},
		"failed":    {2, 2, false, executed},
		"no record": {0, 0, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, told := newLab(t)
			l.StandIn = c.standIn
			if code := l.Run(ended(c.code)); code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
			if c.standIn {
				return
			}
			if got := told(); got != c.told {
				t.Errorf("told %q", got)
			}
		})
	}
	l, _ := newLab(t)
	if err := os.WriteFile("../../bin/weftlab", []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code := l.Run(ended(0)); code != 1 {
		t.Errorf("a record that is not whole: exit code %d", code)
	}
}

// No test of the repository that has a lab with Windows nodes forgets the record: a package's tests are run by the
// lab, and a script asks by itself.
func TestNoTestForgetsTheRecord(t *testing.T) {
	found := map[string]int{}
	if err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		kind := filepath.Ext(path)
		if err != nil || entry.IsDir() || kind != ".go" && kind != ".sh" {
			return err
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		has := func(text string) bool { return strings.Contains(string(code), text) }
		var forgets bool
		switch {
		case entry.Name() == "labtest_test.go": // this one
			return nil
		case kind == ".go" && has("lab/labtest\"") && has("func TestMain("):
			forgets = !has(".Run(m)") && !has("cluster.Run(tests)") || has("m.Run()")
		case kind == ".sh" && has("lab up ") && has("--windows"):
			forgets = !has("lab executed") && !has("show executed")
		default:
			return nil
		}
		if found[kind]++; forgets {
			t.Errorf("%s does not ask what the packets of Windows nodes have met", path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if found[".go"] < 2 || found[".sh"] < 3 {
		t.Errorf("only %v were found", found)
	}
}
