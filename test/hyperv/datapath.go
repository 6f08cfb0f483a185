//go:build linux

package hyperv

import (
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	datapathAttrName  = 1
	datapathAttrStats = 3
)

// getDatapath: Datapath.c, HandleDpTransactionCommon. Features that ovs-vswitchd asks for are neither
// refused nor told back, by which it knows that the driver cannot negotiate.
func getDatapath(e *Extension, r request) ([][]byte, error) {
	_, named := r.attrs[datapathAttrName]
	if !named && (r.command == cmdNew || r.command == cmdSet) {
		return nil, unix.EINVAL
	}
	switch {
	case r.dump:
	case named && r.attrs.text(datapathAttrName) != datapathName:
		if r.command == cmdSet {
			return nil, unix.EOPNOTSUPP
		}
		return nil, unix.ENODEV
	case !named && r.dp != datapathNumber:
		return nil, unix.ENODEV
	case r.command == cmdNew:
		return nil, unix.EEXIST
	}
	return one(genericBody(cmdGet, datapathNumber, func(a *netlink.AttributeEncoder) error {
		a.String(datapathAttrName, datapathName)
		stats := native.AppendUint64(nil, e.stats.hits)
		stats = native.AppendUint64(stats, e.stats.misses)
		stats = native.AppendUint64(stats, e.stats.lost)
		a.Bytes(datapathAttrStats, native.AppendUint64(stats, uint64(e.flows.count)))
		return nil
	}))
}
