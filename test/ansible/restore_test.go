//go:build ansible

package ansible

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var backupPath = regexp.MustCompile(`The backup is ([^ ;"]+);`)

// destroyedDatabasesAreRestored backs up, takes all databases off all central hosts and restores. Running pods notice
// nothing of it, also the one that the backup does not have.
func destroyedDatabasesAreRestored(t *testing.T) {
	install(t)
	deploy(t)
	out, _ := play(t, "backup.yml")
	found := backupPath.FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("backup.yml names no backup:\n%s", out)
	}
	damagedBackupsAreRefused(t, found[1])
	play(t, "restore.yml", "-e", "weft_restore_from="+found[1])
	kept := keptDatabases(t, "c1")
	newPod(t, "after-backup", "l1", "l2")
	before := podAddress(t, "after-backup")
	tr := startTraffic(t)
	for _, central := range centrals {
		servers.On(t, central, "sh", "-ec", "systemctl kill --signal=KILL weft-nb weft-sb; systemctl stop weft-nb weft-sb; "+
			"for file in "+databaseFiles+"; do echo half > $file; done")
	}
	for _, central := range centrals {
		for key := range databases {
			if status, err := clusterStatus(central, key); err == nil {
				t.Fatalf("%s on %s lives on half a file: %s", databases[key], central, status)
			}
		}
	}
	began := time.Now()
	play(t, "restore.yml", "-e", "weft_restore_from="+found[1])
	t.Logf("restore.yml took %s", time.Since(began).Round(time.Second))
	for _, central := range centrals {
		for key := range databases {
			eventually(t, 60*time.Second, central+" is a member of "+databases[key], func() error {
				return memberOf(central, key, len(centrals))
			})
		}
	}
	now := keptDatabases(t, "c1")
	for file := range strings.Lines(kept + "\n") {
		if !strings.Contains(now+"\n", file) {
			t.Errorf("of what the first restore.yml kept on c1 there is no more %sbut\n%s", file, now)
		}
	}
	newPod(t, "after-restore", "l2", "l1")
	command := inPod(t, "web-l2", "l2", "curl", "-sS", "-m", "2", "http://"+before+":8099/hostname")
	eventually(t, 60*time.Second, "the pod that the backup does not have answers at its address", func() error {
		_, err := servers.Try(command...)
		return err
	})
	tr.stop(t)
	play(t, "verify.yml")
}

// damagedBackupsAreRefused before anything is stopped.
func damagedBackupsAreRefused(t *testing.T, good string) {
	before := processes(t)
	for _, test := range []struct{ name, damage, says string }{
		{"cut short", "truncate --size=-20 nb.db", "nb.db is no whole backup of OVN_Northbound"},
		{"changed", "sed -i s/Chassis/Chaszis/ sb.db", "sb.db is no whole backup of OVN_Southbound"},
		{"a schema alone", `head -c "$(grep -abo '^OVSDB' nb.db | sed -n '2s/:.*//p')" nb.db > cut && mv cut nb.db`,
			"nb.db is no whole backup of OVN_Northbound"},
		{"each in the other's place", "mv nb.db x && mv sb.db nb.db && mv x sb.db",
			"nb.db is no whole backup of OVN_Northbound"},
		{"empty", ": > sb.db", "sb.db is no whole backup of OVN_Southbound"},
	} {
		bad := t.TempDir()
		if out, err := exec.Command("sh", "-ec", `cp "$0"/*.db "$1" && cd "$1" && `+test.damage, good,
			bad).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", test.name, err, out)
		}
		refused(t, "restore.yml", []string{"-e", "weft_restore_from=" + bad}, test.says)
	}
	for unit, process := range processes(t) {
		if before[unit] != process {
			t.Errorf("for a bad backup %s was restarted: %s, before %s", unit, process, before[unit])
		}
	}
}

// keptDatabases are the checksums of what restore.yml has put aside on a central host.
func keptDatabases(t *testing.T, central string) string {
	t.Helper()
	return servers.On(t, central, "sh", "-ec", "sha256sum /var/lib/weft/ovn/*.before-restore*")
}

// databaseFiles are those of a central host.
const databaseFiles = "/var/lib/weft/ovn/nb.db /var/lib/weft/ovn/sb.db"

// membersAreReplaced: one that lost its disk by site.yml, and one that is taken out by leave.yml and comes back by
// site.yml.
func membersAreReplaced(t *testing.T) {
	install(t)
	deploy(t)
	tr := startTraffic(t)
	servers.Must(t, "reset", "c2")
	began := time.Now()
	play(t, "site.yml")
	t.Logf("site.yml took %s for a host with a new disk", time.Since(began).Round(time.Second))
	for key := range databases {
		eventually(t, 60*time.Second, "c2 is a member of "+databases[key], func() error {
			return memberOf("c2", key, len(centrals))
		})
	}

	noQuorumIsEnded(t)
	nothingIsLostWithoutACommit(t)
	play(t, "leave.yml", "-e", "weft_leave=c3")
	for _, central := range []string{"c1", "c2"} {
		for key := range databases {
			eventually(t, 60*time.Second, databases[key]+" of "+central+" has two members", func() error {
				return memberOf(central, key, 2)
			})
		}
	}
	if left := servers.On(t, "c3", "sh", "-c", "ls "+filepath.Dir(strings.Fields(databaseFiles)[0])+
		" 2> /dev/null; systemctl is-active weft-nb weft-sb weft-northd | grep -x active || true"); left != "" {
		t.Errorf("c3, which has left, still has %s", left)
	}
	servers.On(t, "c3", "sh", "-ec", "ls /var/lib/weft/ovn.left-*/nb.db /var/lib/weft/ovn.left-*/sb.db")
	newPod(t, "with-two-members", "l1", "l2")
	play(t, "site.yml")
	for _, central := range centrals {
		for key := range databases {
			eventually(t, 60*time.Second, central+" is a member of "+databases[key], func() error {
				return memberOf(central, key, len(centrals))
			})
		}
	}
	newPod(t, "with-three-members", "l2", "l1")
	tr.stop(t)
	play(t, "verify.yml")
}

// noQuorumIsEnded: while one of three is away, no other one leaves, and none is uninstalled that has not left.
func noQuorumIsEnded(t *testing.T) {
	t.Helper()
	servers.Must(t, "off", "c2")
	t.Cleanup(func() { servers.Must(t, "on", "c2") })
	refused(t, "leave.yml", []string{"-e", "weft_leave=c3"},
		"OVN_Northbound: without c3 it has 2 members, of which 2 must serve it; c2 would not",
		"OVN_Southbound: without c3 it has 2 members, of which 2 must serve it; c2 would not")
	servers.Must(t, "on", "c2")
	eventually(t, 2*time.Minute, "c2 is a host again", func() error {
		_, err := servers.Try("control", "--", "ssh", "c2", "true")
		return err
	})
	servers.On(t, "c2", "systemctl", "stop", "weft-sb")
	refused(t, "leave.yml", []string{"-e", "weft_leave=c3"}, "OVN_Southbound: without c3 it has 2 members, of which 2 "+
		"must serve it; c2 would not")
	servers.On(t, "c2", "systemctl", "start", "weft-sb")
	refused(t, "uninstall.yml", []string{"--limit", "c3"}, "c3 is a member of OVN_Northbound and OVN_Southbound, and "+
		"c1, c2 would go on without it")
	for _, central := range centrals {
		for key := range databases {
			eventually(t, 2*time.Minute, databases[key]+" of "+central+" has three members", func() error {
				return memberOf(central, key, len(centrals))
			})
		}
	}
}

// nothingIsLostWithoutACommit: c3 is out of the Northbound, and nobody can say that the others have agreed to it.
func nothingIsLostWithoutACommit(t *testing.T) {
	t.Helper()
	const tool = "/usr/bin/ovn-nbctl"
	for _, central := range []string{"c1", "c2"} {
		servers.On(t, central, "mv", tool, tool+".away")
		t.Cleanup(func() { _, _ = servers.Try("exec", central, "--", "mv", tool+".away", tool) }) // it may be back already
	}
	out, tallies, err := current.tryPlay("leave.yml", "-e", "weft_leave=c3")
	if err == nil || !strings.Contains(out, "OVN_Northbound has not committed that c3 is out") ||
		tallies["c3"].changed > 0 {
		t.Errorf("leave.yml without a commit: %v\n%s", err, out)
	}
	for key := range databases {
		servers.On(t, "c3", "systemctl", "is-active", "weft-"+key)
	}
	servers.On(t, "c3", "sh", "-ec", "ls "+databaseFiles)
	for _, central := range []string{"c1", "c2"} {
		servers.On(t, central, "mv", tool+".away", tool)
	}
}
