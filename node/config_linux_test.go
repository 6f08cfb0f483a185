package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBridgeIsBesideTheDatabase(t *testing.T) {
	c := validConfig()
	c.OVSDatabase = "unix:/run/other/db.sock,unix:/run/third/db.sock"
	if endpoint, err := c.openFlow(); err != nil || endpoint.String() != "unix:/run/other/br-int.mgmt" {
		t.Errorf("br-int is reached at %v, %v", endpoint, err)
	}
	c.OVSDatabase = "tcp:127.0.0.1:6640"
	if endpoint, err := c.openFlow(); err == nil {
		t.Errorf("br-int is reached at %v beside no socket", endpoint)
	}
}

func TestControllerFolders(t *testing.T) {
	for _, test := range []struct {
		database, rundir string
		want             []string
	}{
		{"unix:/var/run/openvswitch/db.sock", "", []string{"/var/run/openvswitch", "/var/run/ovn"}},
		{"unix:/var/run/openvswitch/db.sock", "/opt/ovn", []string{"/opt/ovn"}},
		{"tcp:127.0.0.1:6640", "", []string{"/var/run/ovn"}},
	} {
		if diff := cmp.Diff(test.want, controllerFolders(Config{OVSDatabase: test.database, OVNRunDir: test.rundir})); diff != "" {
			t.Errorf("%s: %s", test.database, diff)
		}
	}
}
