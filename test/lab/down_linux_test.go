package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// populate makes files, and the directories that they are in, below dir.
func populate(t *testing.T, dir string, contents map[string]string) {
	t.Helper()
	for name, content := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const someLab = `{"name": "weft", "linux": 2, "families": "ipv4", "ovn": "prefix", "controllers": 1, "bin": "/project/bin"}`

func TestOnlyALabsStateDirectoryIsRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		contents map[string]string
		own      bool
	}{
		"somebody's work":              {map[string]string{"thesis.txt": "", "drafts/one.txt": ""}, false},
		"somebody's work and a lock":   {map[string]string{"thesis.txt": "", "lock": ""}, false},
		"somebody's lock":              {map[string]string{"lock": "1234"}, false},
		"another program's lab.json":   {map[string]string{"lab.json": `{"experiment": 7}`}, false},
		"a lab.json that is not JSON":  {map[string]string{"lab.json": "notes"}, false},
		"labs' common directory":       {map[string]string{"weft/lab.json": someLab}, false},
		"an empty directory":           {nil, true},
		"a start that was interrupted": {map[string]string{"lock": ""}, true},
		"a lab that has crashed": {map[string]string{"lab.json": someLab, "lock": "", "pid": "1",
			"l1/log/kubelet.log": ""}, true},
		"the logs of one that is taken": {map[string]string{"lab.json": someLab, "supervise.log": "",
			"l1/log/kubelet.log": ""}, true},
	} {
		for verb, remove := range map[string]func(string) error{
			"down":                    func(dir string) error { return Down(dir, false) },
			"up, of what was left":    removeLeftovers,
			"up, after it has failed": func(dir string) error { return Down(dir, true) },
		} {
			t.Run(name+", "+verb, func(t *testing.T) {
				dir := t.TempDir()
				populate(t, dir, test.contents)
				err := remove(dir)
				if test.own {
					if err != nil {
						t.Fatalf("it is refused: %v", err)
					}
					return
				}
				if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), dir) {
					t.Errorf("the error is: %v", err)
				}
				for file := range test.contents {
					if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
						t.Errorf("a file is gone: %v", err)
					}
				}
			})
		}
	}
}

func TestALabThatIsTakenDownLeavesNothingOrItsLogs(t *testing.T) {
	contents := map[string]string{"lab.json": someLab, "supervise.log": "", "pki/ca.key": "", "l1/spec.json": "",
		"l1/log/kubelet.log": ""}
	dir := filepath.Join(t.TempDir(), "lab")
	populate(t, dir, contents)
	if err := Down(dir, true); err != nil {
		t.Fatal(err)
	}
	for file, stays := range map[string]bool{"supervise.log": true, "l1/log/kubelet.log": true, "pki/ca.key": false,
		"l1/spec.json": false} {
		if exists(filepath.Join(dir, file)) != stays {
			t.Errorf("%s is there: %v", file, !stays)
		}
	}
	if err := Down(dir, false); err != nil || exists(dir) {
		t.Errorf("the directory is there: %v (%v)", exists(dir), err)
	}
	if err := Down(dir, false); err != nil {
		t.Errorf("what is not there is no failure: %v", err)
	}
}

func TestAFileIsNoStateDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	populate(t, filepath.Dir(file), map[string]string{"file": "text"})
	if err := Down(file, false); !errors.Is(err, ErrForeign) || !exists(file) {
		t.Errorf("the error is %v, the file is there: %v", err, exists(file))
	}
}
