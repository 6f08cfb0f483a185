package reference

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// withoutPath is a command to a daemon of OVN whose unit has --unixctl: there is no socket of the name with a process
// number, for which ovn-appctl looks if a target is no path.
var withoutPath = regexp.MustCompile(`appctl(\s+--?[\w=-]+)*\s+-t\s+(ovnnb_db|ovnsb_db|ovnsb_relay|ovn-northd)\b`)

// TestCommandsFindTheirDaemons: documents and messages have commands that work on hosts of the playbooks.
func TestCommandsFindTheirDaemons(t *testing.T) {
	for _, command := range []string{"ovn-appctl -t ovn-northd status",
		"ovn-appctl -t\n  ovnnb_db cluster/status OVN_Northbound", "ovn-appctl --timeout=5 -t ovnsb_relay version"} {
		if !withoutPath.MatchString(command) {
			t.Errorf("%q is not found", command)
		}
	}
	for _, command := range []string{"ovn-appctl -t /run/ovn/ovn-northd.ctl status", "ovn-appctl -t ovn-controller exit"} {
		if withoutPath.MatchString(command) {
			t.Errorf("%q is found", command)
		}
	}
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "test"):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".md", ".go", ".yml", ".yaml", ".j2", ".sh"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range withoutPath.FindAllString(string(text), -1) {
			t.Errorf("%s: %q finds no daemon: name its control socket, such as /run/ovn/ovn-northd.ctl", path, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
