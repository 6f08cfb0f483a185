package linux

import (
	"io"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/node/domains"
	"github.com/weftnet/weft/node/platform"
)

// OpenFrames is part of answerWatcher.
func (l *Platform) OpenFrames(s domains.Source) (io.ReadCloser, error) { return domains.Open(s) }

// AnswerDevices are the management device, by which the host reaches pods, and the device that has the
// address: a bridge's own port or a device that is on no bridge. What pods send never leaves by them as the
// host's own, not even with the host's address as source.
func (l *Platform) AnswerDevices(addr netip.Addr) []string {
	addrs, err := l.addresses(nil)
	if err != nil {
		slog.Warn("cannot list the host's addresses", "error", err)
		return nil
	}
	for _, a := range addrs {
		if toPrefix(a.IPNet).Addr() != addr {
			continue
		}
		link, err := l.netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			continue // it has just gone
		}
		return slices.Compact([]string{platform.ManagementDevice, link.Attrs().Name})
	}
	return nil
}
