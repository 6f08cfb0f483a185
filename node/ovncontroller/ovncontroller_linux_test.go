package ovncontroller

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/node/nodeconfig"
)

func TestFolders(t *testing.T) {
	for _, test := range []struct {
		database, rundir string
		want             []string
	}{
		{"unix:/var/run/openvswitch/db.sock", "", []string{"/var/run/openvswitch", "/var/run/ovn"}},
		{"unix:/var/run/openvswitch/db.sock", "/opt/ovn", []string{"/opt/ovn"}},
		{"tcp:127.0.0.1:6640", "", []string{"/var/run/ovn"}},
	} {
		if diff := cmp.Diff(test.want, Folders(nodeconfig.Config{OVSDatabase: test.database,
			OVNRunDir: test.rundir})); diff != "" {
			t.Errorf("%s: %s", test.database, diff)
		}
	}
}
