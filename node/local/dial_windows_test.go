package local

import "testing"

func TestDatabaseIsAPipe(t *testing.T) {
	got := pipeOf(`C:/openvswitch/var\run/openvswitch/db.sock`)
	if got != `\\.\pipe\C:openvswitchvarrunopenvswitchdb.sock` {
		t.Errorf("the database's pipe is %q", got)
	}
}
