//go:build ansible

package ansible

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var backupPath = regexp.MustCompile(`The backup is ([^ ;"]+);`)

// destroyedDatabasesAreRestored backs up, takes all databases off all central hosts and restores. Running pods notice nothing of it,
// also the one that the backup does not have.
func destroyedDatabasesAreRestored(t *testing.T) {
	install(t)
	deploy(t)
	out, _ := play(t, "backup.yml")
	found := backupPath.FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("backup.yml names no backup:\n%s", out)
	}
	newPod(t, "after-backup", "l1", "l2")
	before := podAddress(t, "after-backup")
	tr := startTraffic(t)
	for _, central := range centrals {
		servers.On(t, central, "sh", "-ec", "systemctl kill --signal=KILL weft-nb weft-sb; systemctl stop weft-nb weft-sb; rm "+databaseFiles)
	}
	for _, central := range centrals {
		for key := range databases {
			if status, err := clusterStatus(central, key); err == nil {
				t.Fatalf("%s on %s lives without its file: %s", databases[key], central, status)
			}
		}
	}
	began := time.Now()
	play(t, "restore.yml", "-e", "weft_restore_from="+found[1])
	t.Logf("restore.yml took %s", time.Since(began).Round(time.Second))
	for _, central := range centrals {
		for key := range databases {
			eventually(t, 60*time.Second, central+" is a member of "+databases[key], func() error { return memberOf(central, key, len(centrals)) })
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

// databaseFiles are those of a central host.
const databaseFiles = "/var/lib/weft/ovn/nb.db /var/lib/weft/ovn/sb.db"

// membersAreReplaced: one that lost its disk by site.yml, and one that is taken out by leave.yml and comes back by site.yml.
func membersAreReplaced(t *testing.T) {
	install(t)
	deploy(t)
	tr := startTraffic(t)
	servers.Must(t, "reset", "c2")
	began := time.Now()
	play(t, "site.yml")
	t.Logf("site.yml took %s for a host with a new disk", time.Since(began).Round(time.Second))
	for key := range databases {
		eventually(t, 60*time.Second, "c2 is a member of "+databases[key], func() error { return memberOf("c2", key, len(centrals)) })
	}

	play(t, "leave.yml", "-e", "weft_leave=c3")
	for _, central := range []string{"c1", "c2"} {
		for key := range databases {
			eventually(t, 60*time.Second, databases[key]+" of "+central+" has two members", func() error { return memberOf(central, key, 2) })
		}
	}
	if left := servers.On(t, "c3", "sh", "-c", "ls "+filepath.Dir(strings.Fields(databaseFiles)[0])+" 2> /dev/null; systemctl is-active weft-nb weft-sb weft-northd | grep -x active || true"); left != "" {
		t.Errorf("c3, which has left, still has %s", left)
	}
	newPod(t, "with-two-members", "l1", "l2")
	play(t, "site.yml")
	for _, central := range centrals {
		for key := range databases {
			eventually(t, 60*time.Second, central+" is a member of "+databases[key], func() error { return memberOf(central, key, len(centrals)) })
		}
	}
	newPod(t, "with-three-members", "l2", "l1")
	tr.stop(t)
	play(t, "verify.yml")
}
