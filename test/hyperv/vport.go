//go:build linux

package hyperv

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/netdev"
)

// Kinds of ports (OVS_VPORT_TYPE_*) that the driver has; GRE and VXLAN it has, too, and this
// emulator not.
const (
	vportNetdev   = 1
	vportInternal = 2
	vportGeneve   = 5
)

const (
	vportAttrNumber    = 1
	vportAttrType      = 2
	vportAttrName      = 3
	vportAttrOptions   = 4
	vportAttrUpcallPID = 5
	vportAttrStats     = 6

	tunnelAttrDstPort = 1
)

const noPort = 0xffffffff

// vport is a port of the datapath: a device of the switch, or a tunnel.
type vport struct {
	number   uint32
	kind     uint32
	name     string
	external bool          // the adapter
	upcall   uint32        // netlink port id; 0: none
	udpPort  uint16        // of a tunnel
	device   netdev.Device // none: a tunnel
	// disconnected: its vNIC is no longer connected, though nobody has deleted the port.
	disconnected bool

	rxPackets, rxBytes, txPackets, txBytes, txDropped uint64
}

func (v *vport) close() {
	if v.device != nil {
		v.device.Close()
	}
}

// send gives a frame to the port's device, if there is one.
func (v *vport) send(frame []byte) error {
	if v.device == nil {
		return nil
	}
	if _, err := v.device.Write(frame); err != nil {
		v.txDropped++
		return fmt.Errorf("%s takes no frame: %w", v.name, err)
	}
	return nil
}

// usable says whether packets may go by a port: Vport.h, OVS_STATE_CONNECTED.
func (v *vport) usable() bool { return v != nil && !v.disconnected }

// errDisconnected is counted for a packet that goes no further because of that.
var errDisconnected = dropped("a port that is not connected")

// encode: Vport.c, OvsCreateMsgFromVport.
func (v *vport) encode(command uint8) ([]byte, error) {
	return genericBody(command, datapathNumber, func(a *netlink.AttributeEncoder) error {
		a.Uint32(vportAttrNumber, v.number)
		a.Uint32(vportAttrType, v.kind)
		a.String(vportAttrName, v.name)
		a.Uint32(vportAttrUpcallPID, v.upcall)
		var stats []byte
		for _, n := range []uint64{v.rxPackets, v.txPackets, v.rxBytes, v.txBytes, 0, 0, 0, v.txDropped} {
			stats = native.AppendUint64(stats, n)
		}
		a.Bytes(vportAttrStats, stats)
		return nil
	})
}

// vports are the ports of the switch and its tunnels: Vport.c.
type vports struct {
	log      *slog.Logger
	host     host
	adapter  string      // the switch's external port
	vmms     atomic.Bool // Hyper-V's management service runs
	byNumber map[uint32]*vport
}

func (vs *vports) reset() {
	for _, v := range vs.byNumber {
		v.close()
	}
	clear(vs.byNumber)
}

// names are those of all ports, in their order.
func (vs *vports) names() []string {
	var names []string
	for _, v := range vs.byNumber {
		names = append(names, v.name)
	}
	slices.Sort(names)
	return names
}

// add: Vport.c, OvsNewVportCmdHandler, after create_wmi_port of lib/wmi.c for a port of type
// internal, which makes the vNIC if there is none of that name.
func (vs *vports) add(r request) (*vport, error) {
	name, kind := r.attrs.text(vportAttrName), r.attrs.u32(vportAttrType)
	if name == "" || len(r.attrs[vportAttrType]) != 4 || len(r.attrs[vportAttrUpcallPID]) < 4 {
		return nil, unix.EINVAL
	}
	if vs.byName(name) != nil {
		return nil, unix.EEXIST
	}
	v := &vport{kind: kind, name: name, upcall: r.attrs.u32(vportAttrUpcallPID)}
	if number := r.attrs[vportAttrNumber]; len(number) == 4 {
		v.number = native.Uint32(number)
		if vs.byNumber[v.number] != nil {
			return nil, unix.EBUSY
		}
	} else {
		v.number = vs.freeNumber()
	}
	if err := vs.open(v, r.attrs); err != nil {
		vs.log.Warn("a port cannot be added", "port", name, "err", err)
		return nil, unix.EINVAL
	}
	vs.byNumber[v.number] = v
	return v, nil
}

// open gives a new port its device.
func (vs *vports) open(v *vport, attrs attributes) (err error) {
	switch v.kind {
	case vportInternal:
		if !vs.vmms.Load() {
			return fmt.Errorf("Hyper-V's management service does not run: no vNIC %s", v.name)
		}
		v.device, err = vs.host.openVNIC(v.name)
	case vportNetdev:
		v.external = v.name == vs.adapter
		v.device, err = vs.host.openDevice(v.name)
	case vportGeneve:
		return vs.openTunnel(v, attrs)
	default:
		return fmt.Errorf("no ports of type %d", v.kind)
	}
	return err
}

const genevePort = 6081

func (vs *vports) openTunnel(v *vport, attrs attributes) error {
	v.udpPort = genevePort
	if options, ok := attrs[vportAttrOptions]; ok {
		nested, err := attributesOf(options)
		if err != nil {
			return err
		}
		if port := nested[tunnelAttrDstPort]; len(port) == 2 {
			v.udpPort = native.Uint16(port)
		}
	}
	if vs.tunnelByPort(v.udpPort) != nil {
		return fmt.Errorf("another tunnel has the port %d", v.udpPort)
	}
	return nil
}

// freeNumber: Vport.c, OvsComputeVportNo.
func (vs *vports) freeNumber() uint32 {
	for n := uint32(1); ; n++ {
		if vs.byNumber[n] == nil {
			return n
		}
	}
}

func (vs *vports) byName(name string) *vport {
	for _, v := range vs.byNumber {
		if v.name == name {
			return v
		}
	}
	return nil
}

// setConnected connects and disconnects the vNIC of a port: Vport.c, HvConnectNic and HvDisconnectNic.
func (vs *vports) setConnected(port string, on bool) error {
	v := vs.byName(port)
	if v == nil {
		return fmt.Errorf("no port %q", port)
	}
	v.disconnected = !on
	return nil
}

// tunnelByPort: Vport.c, OvsFindTunnelVportByDstPortAndNWProto.
func (vs *vports) tunnelByPort(port uint16) *vport {
	for _, v := range vs.byNumber {
		if v.kind == vportGeneve && v.udpPort == port {
			return v
		}
	}
	return nil
}

// named finds the port that a request means.
func (vs *vports) named(r request) (*vport, error) {
	var v *vport
	if _, ok := r.attrs[vportAttrName]; ok {
		v = vs.byName(r.attrs.text(vportAttrName))
	} else if number := r.attrs[vportAttrNumber]; len(number) == 4 {
		v = vs.byNumber[native.Uint32(number)]
	}
	if v == nil {
		return nil, unix.ENODEV
	}
	return v, nil
}

func (vs *vports) get(r request) ([][]byte, error) {
	if !r.dump {
		v, err := vs.named(r)
		if err != nil {
			return nil, err
		}
		return one(v.encode(r.command))
	}
	var bodies [][]byte
	for _, number := range slices.Sorted(maps.Keys(vs.byNumber)) {
		body, err := vs.byNumber[number].encode(r.command)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// set: Vport.c, OvsSetVportCmdHandler.
func (vs *vports) set(r request) ([][]byte, error) {
	v, err := vs.named(r)
	if err != nil {
		return nil, err
	}
	if data := r.attrs[vportAttrUpcallPID]; len(data) >= 4 {
		v.upcall = native.Uint32(data)
	}
	if data := r.attrs[vportAttrType]; len(data) == 4 && native.Uint32(data) != v.kind {
		return nil, unix.EINVAL
	}
	if _, ok := r.attrs[vportAttrOptions]; ok {
		return nil, unix.EOPNOTSUPP
	}
	return one(v.encode(r.command))
}

// delete: Vport.c, OvsDeleteVportCmdHandler, after delete_wmi_port of lib/wmi.c, whose failure is
// only logged.
func (vs *vports) delete(r request) ([][]byte, error) {
	v, err := vs.named(r)
	if err != nil {
		return nil, err
	}
	body, err := v.encode(r.command)
	if err != nil {
		return nil, err
	}
	delete(vs.byNumber, v.number)
	v.close()
	if v.kind == vportInternal && vs.vmms.Load() {
		if err := vs.host.removeVNIC(v.name); err != nil {
			vs.log.Warn("the vNIC of a port cannot be removed", "port", v.name, "err", err)
		}
	}
	return one(body, nil)
}

// newVport adds a port, and takes in what its device gets.
func (d *datapath) newVport(r request) ([][]byte, error) {
	v, err := d.vports.add(r)
	if err != nil {
		return nil, err
	}
	if v.device != nil {
		go d.receive(v)
	}
	return one(v.encode(r.command))
}

// receive takes what a port's device gets, until the device is closed. One that ends by itself is gone, and its
// port is no longer connected.
func (d *datapath) receive(v *vport) {
	buffer := make([]byte, netdev.MaxFrame)
	for {
		n, err := v.device.Read(buffer)
		if err != nil {
			d.vports.log.Debug("a port's device ends", "port", v.name, "err", err)
			d.mu.Lock()
			v.disconnected = true
			d.mu.Unlock()
			return
		}
		d.mu.Lock()
		if d.vports.byNumber[v.number] == v {
			d.ingress(v, append([]byte(nil), buffer[:n]...))
		}
		d.mu.Unlock()
	}
}
