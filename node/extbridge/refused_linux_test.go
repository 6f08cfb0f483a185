package extbridge

import (
	"errors"
	"strings"
	"testing"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/weftnet/weft/node/nodetest"
)

// TestARefusedFlowStandsAlone: the datapath lacks what some flows ask for, ovs-ofctl cannot read another, and all
// others are in force, in one transaction. Nothing is tried again until ovs-vswitchd may have changed.
func TestARefusedFlowStandsAlone(t *testing.T) {
	w := newWorld(t, false)
	w.likeHyperV()
	good := Flows(w.bridge, w.entries)
	bad := &flows{}
	for range 2 {
		bad.add(tableClassify, 399-len(bad.list), ovs.SetField("2", "nd_options_type"), ovs.Normal()).proto(
			ovs.ProtocolICMPv6).icmp(neighbourAdvertisement)
	}
	bad.add(tableClassify, 390, ovs.SetField("1", "no_such_field"))
	want := append(append([]*ovs.Flow{}, good...), bad.finish()...)
	check := func(what string) {
		t.Helper()
		_, err := w.installer.Apply(t.Context(), w.target, want)
		var refused RefusedFlows
		if !errors.As(err, &refused) || len(refused) != 3 {
			t.Fatalf("%s: got %v", what, err)
		}
		for _, word := range []string{"nd_options_type", "OFPBAC_BAD_SET_ARGUMENT", "no_such_field"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %s", what, err, word)
			}
		}
		in, err := w.installer.list(t.Context(), w.target)
		if err != nil || len(in) != len(good) {
			t.Errorf("%s: %d flows are in force of %d, %v", what, len(in), len(good), err)
		}
		if dump := w.ovn.Run("ovs-ofctl", "dump-flows", w.target); strings.Contains(dump, "0x7766") ||
			strings.Contains(dump, "table=250") {
			t.Errorf("%s: trials are left:\n%s", what, dump)
		}
	}
	check("at first")
	program := w.installer.Program
	w.installer.Program = "/no/ovs-ofctl" // nothing is run
	if _, err := w.installer.Apply(t.Context(), w.target, want); !errors.As(err, new(RefusedFlows)) {
		t.Errorf("again: got %v", err)
	}
	w.installer.Program = program
	w.installer.Forget()
	check("after a restart")
	w.install() // of the good ones alone nothing is told
	w.ovn.Kill(nodetest.Vswitchd)
	w.installer.Forget()
	if _, err := w.installer.Apply(t.Context(), w.target, want); err == nil || errors.As(err, new(RefusedFlows)) {
		t.Errorf("nobody there: got %v", err)
	}
}
