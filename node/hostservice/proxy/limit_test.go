package proxy

import (
	"net/netip"
	"testing"

	"github.com/weftnet/weft/node/hostservice/hosttest"
)

// Who comes by another network leaves the host itself room.
func TestRemoteClientsLeaveRoomForTheHost(t *testing.T) {
	l := &limit{most: 4}
	own, other := netip.MustParseAddr("172.29.0.11"), netip.MustParseAddr("172.29.0.1")
	if isRemote(own, own) || isRemote(own, hosttest.Loopback) || !isRemote(other, own) {
		t.Error("who is remote")
	}
	taken := 0
	for l.acquire(true) {
		taken++
	}
	if taken != 2 {
		t.Errorf("remote clients have %d of 4", taken)
	}
	for range 2 {
		if !l.acquire(false) {
			t.Error("the host has no room")
		}
	}
	if l.acquire(false) || l.acquire(true) {
		t.Error("there is more than there is")
	}
	l.release(false)
	if l.acquire(true) || !l.acquire(false) {
		t.Error("the host's room is a remote client's")
	}
	for range 2 {
		l.release(true)
		l.release(false)
	}
	if l.now.Load() != 0 || l.remotes.Load() != 0 {
		t.Errorf("%d and %d are left", l.now.Load(), l.remotes.Load())
	}
}
