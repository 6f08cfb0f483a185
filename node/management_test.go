package node

import (
	"strings"
	"testing"
)

// The host's interface waits for the MTU of the tunnels: no system takes 0 for one.
func TestManagementWaitsForTheTunnelsMTU(t *testing.T) {
	a := newFirstStart(t).agent()
	waits := func() bool {
		err := a.keepManagement(t.Context(), bareNetwork)
		return err != nil && strings.Contains(err.Error(), "node-facts")
	}
	if !waits() {
		t.Error("it does not wait")
	}
	a.podMTU = 1442
	if waits() {
		t.Error("it waits although the MTU is known")
	}
}
