package hosttest

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Address gives the host one more address, such as "192.0.2.1/32", until the test ends, or remove is called.
func Address(tb testing.TB, text string) (remove func()) {
	tb.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		tb.Fatal(err)
	}
	addr, err := netlink.ParseAddr(text)
	if err != nil {
		tb.Fatal(err)
	}
	addr.Flags = unix.IFA_F_NODAD // usable at once
	if err := netlink.AddrReplace(lo, addr); err != nil {
		tb.Fatal(err)
	}
	remove = func() { _ = netlink.AddrDel(lo, addr) } // it may be gone already
	tb.Cleanup(remove)
	return remove
}
