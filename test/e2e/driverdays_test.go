//go:build cluster

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/hyperv"
)

// breakDriver tells the emulated extension of a Windows node something, and takes it back when the test ends.
func breakDriver(t *testing.T, node, verb, value, back string) (mend func()) {
	t.Helper()
	cluster.Must(t, "hyperv", node, "--", verb, value)
	mend = func() { cluster.Must(t, "hyperv", node, "--", verb, back) }
	t.Cleanup(mend)
	return mend
}

// TestDriversBadDays is what the driver and Hyper-V's management do to a node. TestExtensionIsEnabledAgain has the
// extension.
func TestDriversBadDays(t *testing.T) {
	long(t)
	if !emulated() {
		t.Log("the Linux stand-in has no driver")
		return
	}
	t.Run("each command is slow", func(t *testing.T) {
		mend := breakDriver(t, badDays, "slow", "10ms", "0s")
		aPodComesUp(t, badDays)
		mend()
		webServes(t, badDays, 60*time.Second)
	})
	t.Run("packets on their way to ovs-vswitchd are lost", losesUpcalls)
	t.Run("Hyper-V's management stops", stopsManagement)
}

// losesUpcalls: what has flows goes on, and what has none begins when upcalls come again. Packets of a tracked
// connection of IPv6 hit no flow of the driver's (tracked-ipv6): those are all lost.
func losesUpcalls(t *testing.T) {
	host(badDays).serve(t, steady(), "serve", fmt.Sprintf(":%d", hostsOwnPort))
	kept := nodeAddresses(t, badDays)
	if hasFault(hyperv.TrackedIPv6) {
		kept = kept[:1]
	}
	streams := openStreamsTo(t, badDays, kept)
	mend := breakDriver(t, badDays, "upcalls", "off", "on")
	address := podAddresses(t, web(badDays))[0]
	eventually(t, 60*time.Second, "new connections have no answer", func() error {
		if _, err := get(web("l1"), address, 8080, "hostname"); err == nil {
			return errors.New("one has")
		}
		return nil
	})
	mend()
	webServes(t, badDays, 60*time.Second)
	streams.survive(t, longestStop)
	aPodComesUp(t, badDays)
}

// stopsManagement: without vmms no vNIC becomes a port of Open vSwitch. A pod that comes meanwhile is connected once it
// is back.
func stopsManagement(t *testing.T) {
	fault(t, badDays, "no-vmms")
	name := makeProbe(t, badDays)
	eventually(t, 60*time.Second, "the pod's port is in error", func() error {
		ports := cluster.Must(t, "exec", badDays, "--", "ovs-vsctl", "--bare", "--columns=name,error", "find", "interface",
			"external_ids:iface-id=default_"+name)
		if len(strings.Fields(ports)) < 2 {
			return fmt.Errorf("it is %q", ports)
		}
		return nil
	})
	webServes(t, badDays, 20*time.Second) // those that there are go on
	cluster.Must(t, "hns", badDays, "--", "fault", "clear")
	comesUp(t, name)
	deletePod(t, name)
}
