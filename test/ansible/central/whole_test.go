//go:build ansible

package central

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// does is a play that does what a file of the role's tasks says, and has the hosts be members after it.
func does(tasks string) string {
	return "    - ansible.builtin.include_role: {name: ovn_central, tasks_from: " + tasks + "}\n" + members
}

// refuses: a play fails, says why, and all members are those that they were.
func (c *centrals) refuses(tasks string, hosts int, says string, args ...string) {
	c.t.Helper()
	out, err := c.play(tasks, hosts, nil, args...)
	if err == nil || !strings.Contains(out, says) {
		c.t.Errorf("with %q it is not refused with %q: %v\n%s", args, says, err, out)
	}
	if strings.Contains(out, "changed: ") {
		c.t.Errorf("with %q it was refused after something was changed:\n%s", args, out)
	}
}

// TestDatabasesAreCreatedByAll: a host that is alone does not know whether others have them.
func TestDatabasesAreCreatedByAll(t *testing.T) {
	c := newCentrals(t)
	c.refuses(members, 3, "c2, c3 of weft_central would take no part, and no host that answers has OVN_Northbound, "+
		"which they may have", "--limit", "c1")
	if out, err := c.play(members, 3, nil); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for host := 1; host <= 3; host++ {
		c.whole(host, 1, 2, 3)
	}
	if c.ids(1, clusterID) != c.ids(2, clusterID) || c.ids(1, clusterID) != c.ids(3, clusterID) {
		t.Errorf("they are of the clusters %s, %s and %s", c.ids(1, clusterID), c.ids(2, clusterID), c.ids(3, clusterID))
	}
}

// TestOneClusterIsRestored: no new one begins beside one that lives, and hosts that are lost hinder nobody.
func TestOneClusterIsRestored(t *testing.T) {
	c := installed(t, 3)
	from := []string{"--extra-vars", "weft_restore_from=" + c.backup()}
	with := func(args ...string) []string { return append(args, from...) }
	before := c.ids(1, clusterID)
	for _, tasks := range []string{"examine", "restore"} {
		c.refuses(does(tasks), 3, "c2, c3 of weft_central would take no part, and would go on with the clusters that "+
			"there are", with("--limit", "c1")...)
		c.refuses(does(tasks), 3, "c3 is in weft_lost, and OVN_Northbound answers at its port",
			with("--limit", "c1,c2", "--extra-vars", "weft_lost=c3")...)
	}
	for host := 1; host <= 3; host++ {
		c.whole(host, 1, 2, 3)
	}
	c.dies(2)
	c.stops(1)
	c.stops(3)
	out, err := c.play(does("restore"), 3, nil, with("--limit", "c1,c3", "--extra-vars", `{"weft_lost": ["c2"]}`)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, host := range []int{1, 3} {
		c.whole(host, 1, 3)
		if now := c.ids(host, clusterID); now == before {
			t.Errorf("after the restoration c%d is of the clusters of before, %s", host, now)
		}
		if kept, _ := filepath.Glob(c.path(host, "lib/ovn/*.db.before-restore-*")); len(kept) != 2 {
			t.Errorf("of c%d's databases %v are kept", host, kept)
		}
	}
	if out, err := c.play(members, 3, nil); err != nil {
		t.Fatalf("c2 does not come back: %v\n%s", err, out)
	}
	c.whole(2, 1, 2, 3)
}

// backup is a folder with what backup.yml fetches of c1.
func (c *centrals) backup() string {
	c.t.Helper()
	folder := c.t.TempDir()
	for key, name := range databases {
		text := ovsdbtest.Run(c.t, "ovsdb-client", "backup", "unix:"+c.path(1, "run/ovn"+key+"_db.sock"), name)
		if err := os.WriteFile(filepath.Join(folder, key+".db"), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return folder
}

var schemaVersion = regexp.MustCompile(`"version": *"[0-9.]+"`)

const olderVersion = "1.0.0"

// olderSchemas is a folder with schemas of an older OVN.
func olderSchemas(t *testing.T) string {
	t.Helper()
	older := t.TempDir()
	for key := range databases {
		name := "ovn-" + key + ".ovsschema"
		text, err := os.ReadFile(filepath.Join(prefix(), "share/ovn", name))
		if err != nil {
			t.Fatal(err)
		}
		version := []byte(`"version": "` + olderVersion + `"`)
		if err := os.WriteFile(filepath.Join(older, name), schemaVersion.ReplaceAll(text, version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return older
}

// schema is the version of the one that a host serves a database by.
func (c *centrals) schema(host int, key string) string {
	c.t.Helper()
	return strings.TrimSpace(ovsdbtest.Run(c.t, "ovsdb-client", "get-schema-version",
		"unix:"+c.path(host, "run/ovn"+key+"_db.sock"), databases[key]))
}

// converted: the hosts serve both databases by the schemas of now.
func (c *centrals) converted(hosts int) {
	c.t.Helper()
	for host := 1; host <= hosts; host++ {
		for key := range databases {
			if c.schema(host, key) == olderVersion {
				c.t.Errorf("%s of c%d was not converted", databases[key], host)
			}
		}
	}
}

// TestAnOlderBackupIsRestored, as of the OVN before an upgrade: restore.yml has it converted, since the databases
// of before are put aside by then.
func TestAnOlderBackupIsRestored(t *testing.T) {
	c := installedOf(t, 3, olderSchemas(t))
	backup := c.backup()
	text, err := os.ReadFile(filepath.Join(ovsdbtest.Repository(), "ansible/playbooks/restore.yml"))
	if err != nil {
		t.Fatal(err)
	}
	type play struct {
		Name string
		Vars map[string]any
	}
	var plays []play
	if err := yaml.Unmarshal(text, &plays); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(plays, func(p play) bool { return p.Name == "Restore OVN's databases" })
	if at < 0 {
		t.Fatalf("restore.yml restores no databases:\n%s", text)
	}
	vars, err := json.Marshal(plays[at].Vars)
	if err != nil {
		t.Fatal(err)
	}
	for host := 1; host <= 3; host++ {
		c.stops(host)
	}
	out, err := c.play(does("restore"), 3, nil, "--extra-vars", "weft_restore_from="+backup, "--extra-vars", string(vars))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.converted(3)
}

// TestDatabasesAreConvertedByAll: a member that is left out may be an older server, which ends on the conversion.
func TestDatabasesAreConvertedByAll(t *testing.T) {
	c := installedOf(t, 3, olderSchemas(t))
	leader := "c1" // who converts
	convert := []string{"--extra-vars", `{"weft_convert": true}`}
	c.refuses(members, 3, "c2, c3 of weft_central would take no part, and may run an older ovsdb-server, which ends "+
		"when OVN_Northbound is converted", append(convert, "--limit", leader)...)
	c.refuses(members, 3, "c3 is in weft_lost, and OVN_Northbound answers", append(convert, "--limit", "c1,c2",
		"--extra-vars", "weft_lost=c3")...)
	for key := range databases {
		if now := c.schema(1, key); now != olderVersion {
			t.Errorf("%s was converted to %s without c2 and c3", databases[key], now)
		}
	}
	if out, err := c.play(members, 3, nil, convert...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.converted(3)
}

// TestWhatWasPutAsideOutlivesTheRemoval: a member leaves, and is taken off its host.
func TestWhatWasPutAsideOutlivesTheRemoval(t *testing.T) {
	c := installed(t, 3)
	for _, global := range []string{"nb", "sb"} {
		ovsdbtest.Run(t, "ovn-"+global+"ctl", "--no-leader-only", "--db=unix:"+c.path(1, "run/ovn"+global+"_db.sock"), "init")
	}
	c.write("c3/lib/ovn/nb.db.before-restore-20261122T120000Z", "what there was")
	c.write("c3/lib/node/state", "nothing of worth")
	leave := "    - ansible.builtin.include_role: {name: ovn_central, tasks_from: leave}\n"
	if out, err := c.play(leave, 3, nil, "--extra-vars", "weft_leave=c3"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.stops(3)
	c.whole(1, 1, 2)
	c.write("c1/lib/ovn/sb.db.before-restore-20261122T120000Z", "what there was")
	state := "    - ansible.builtin.include_role: {name: weft_common, tasks_from: state}\n"
	out, err := c.play(state, 3, nil, "--limit", "c3")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	left, _ := filepath.Glob(c.path(3, "lib/ovn.left-*/*"))
	var names []string
	for _, file := range left {
		names = append(names, filepath.Base(file))
		if !strings.Contains(out, filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)) &&
			!strings.HasPrefix(filepath.Base(file), ".") {
			t.Errorf("it does not say that there is %s:\n%s", file, out)
		}
	}
	if all := strings.Join(names, " "); !strings.Contains(all, "nb.db nb.db.before-restore-20261122T120000Z sb.db") {
		t.Errorf("of what was put aside there is %s", all)
	}
	if rest, _ := filepath.Glob(c.path(3, "lib/*")); len(rest) != 1 {
		t.Errorf("all of %v is left", rest)
	}
	c.stops(1)
	if out, err := c.play(state, 3, nil, "--limit", "c1"); err != nil ||
		!strings.Contains(out, "lib/ovn/sb.db.before-restore-20261122T120000Z") {
		t.Errorf("it does not say what it keeps: %v\n%s", err, out)
	}
	if rest, _ := filepath.Glob(c.path(1, "lib/ovn/*")); len(rest) != 1 {
		t.Errorf("of the databases %v is left", rest)
	}
}
