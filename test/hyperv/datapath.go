//go:build linux

package hyperv

import (
	"maps"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// datapathNumber and datapathName: Datapath.c, there is one.
const (
	datapathNumber = 0
	datapathName   = "ovs-system"
)

const (
	datapathAttrName  = 1
	datapathAttrStats = 3
)

// datapath is the one that the driver has. Its lock is of all its parts, which have none of their own: packets,
// commands and questions of tests hold it, so they go one after the other. A packet's way through the parts is in
// execute.go.
type datapath struct {
	mu sync.Mutex

	faults     Faults // the same map in all parts
	clock      *clock
	statistics *statistics
	record     *record
	upcalls    upcalls
	vports     vports
	flows      flowTable
	deferred   deferredQueue
	meters     meters
	fragments  fragmentTable
	conntrack  conntrack
	peers      peers
}

func newDatapath(config Config, machine host, sockets *sockets) *datapath {
	d := &datapath{
		faults:     Faults{},
		clock:      &clock{time.Now},
		statistics: &statistics{losses: map[string]uint64{}},
		record:     &record{log: config.Log, writer: config.Record, counts: map[string]uint64{}},
	}
	maps.Copy(d.faults, config.Faults)
	d.upcalls = upcalls{log: config.Log, statistics: d.statistics, sockets: sockets}
	d.vports = vports{log: config.Log, host: machine, adapter: config.Adapter, byNumber: map[uint32]*vport{}}
	d.flows = flowTable{faults: d.faults, record: d.record, table: newTable[key, *flow](flowLists, d.faults)}
	d.meters = meters{clock: d.clock, byID: map[uint32]*meter{}}
	d.fragments = fragmentTable{clock: d.clock, byKey: map[fragmentKey]*fragments{}}
	d.conntrack = conntrack{log: config.Log, faults: d.faults, clock: d.clock, statistics: d.statistics, record: d.record}
	d.conntrack.reset()
	d.peers = peers{log: config.Log, host: machine, clock: d.clock, lock: &d.mu, byEnds: map[peerKey]*peer{}}
	return d
}

// reset has the datapath forget all: Switch.c, OvsExtDetach.
func (d *datapath) reset() {
	d.vports.reset()
	d.flows.reset()
	d.deferred.reset()
	d.meters.reset()
	d.fragments.reset()
	d.conntrack.reset()
	d.peers.reset()
}

// setFaults switches the driver's faults in all parts.
func (d *datapath) setFaults(f Faults) {
	clear(d.faults)
	maps.Copy(d.faults, f)
	d.conntrack.rehash()
	d.flows.rehash()
}

// compared is how many entries of its tables it has looked at.
func (d *datapath) compared() uint64 { return d.flows.table.compared + d.conntrack.compared() }

// transact: Datapath.c, HandleDpTransactionCommon. Features that ovs-vswitchd asks for are neither
// refused nor told back, by which it knows that the driver cannot negotiate.
func (d *datapath) transact(r request) ([][]byte, error) {
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
		a.Bytes(datapathAttrStats, d.statistics.encode(d.flows.table.count))
		return nil
	}))
}
