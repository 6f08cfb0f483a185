package hyperv

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// maxFrame is the longest frame that a device gives.
const maxFrame = 1 << 16

// device is what a port sends to and receives from, by frames. read ends with an error after close.
type device interface {
	read(b []byte) (int, error)
	write(frame []byte) error
	close()
}

// host is what the extension wants of the machine that it is in.
type host interface {
	// openVNIC opens the vNIC of that name, and makes it if there is none.
	openVNIC(name string) (device, error)
	removeVNIC(name string) error
	// openDevice opens a network device that must be there.
	openDevice(name string) (device, error)
	// route finds by which device, from which address and MAC, and to which MAC a packet to dst is sent.
	// The peer's MAC is empty until it is known; asking makes it known.
	route(dst netip.Addr) (route, error)
}

type route struct {
	device string
	src    netip.Addr
	srcMAC [6]byte
	dstMAC net.HardwareAddr
}

// linuxHost is the network namespace of the process.
type linuxHost struct{}

// tapDevice is a tap: its frames are those that the other side, a network stack, sends.
type tapDevice struct{ file *os.File }

func (d tapDevice) read(b []byte) (int, error) { return d.file.Read(b) }
func (d tapDevice) close()                     { d.file.Close() }
func (d tapDevice) write(frame []byte) error {
	_, err := d.file.Write(frame)
	return err
}

func (linuxHost) openVNIC(name string) (device, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make the tap %s: %w", name, err)
	}
	return tapDevice{os.NewFile(uintptr(fd), name)}, nil
}

// removeVNIC: one that was here before the port, as those of HNS, goes too.
func (linuxHost) removeVNIC(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

// packetDevice is a device of another kind, by a packet socket. Its frames are copies: whoever does not
// want the host's stack to see them, as HNS's emulator does not, drops them there.
type packetDevice struct {
	file *os.File
	raw  func(func(fd uintptr) bool) error
}

func (linuxHost) openDevice(name string) (device, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	protocol := uint16(unix.ETH_P_ALL)<<8 | unix.ETH_P_ALL>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	membership := unix.PacketMreq{Ifindex: int32(link.Attrs().Index), Type: unix.PACKET_MR_PROMISC}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &membership),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Attrs().Index}))
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return packetDevice{file, raw.Write}, nil
}

func (d packetDevice) read(b []byte) (int, error) {
	for {
		n, err := d.file.Read(b)
		if errors.Is(err, unix.ENETDOWN) { // it says so once, and goes on when the device is up
			continue
		}
		return n, err
	}
}

func (d packetDevice) close() { d.file.Close() }

func (d packetDevice) write(frame []byte) error {
	var sent error
	err := d.raw(func(fd uintptr) bool {
		_, sent = unix.Write(int(fd), frame)
		return true
	})
	return errors.Join(err, sent)
}

func (linuxHost) route(dst netip.Addr) (route, error) {
	routes, err := netlink.RouteGet(dst.AsSlice())
	if err != nil || len(routes) == 0 {
		return route{}, fmt.Errorf("find the route to %s: %w", dst, err)
	}
	hop, _ := netip.AddrFromSlice(routes[0].Gw)
	if !hop.IsValid() {
		hop = dst
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return route{}, fmt.Errorf("find the device of the route to %s: %w", dst, err)
	}
	src, _ := netip.AddrFromSlice(routes[0].Src)
	r := route{device: link.Attrs().Name, src: src.Unmap()}
	copy(r.srcMAC[:], link.Attrs().HardwareAddr)
	family := netlink.FAMILY_V4
	if dst.Is6() {
		family = netlink.FAMILY_V6
	}
	neighbours, err := netlink.NeighList(link.Attrs().Index, family)
	if err != nil {
		return route{}, fmt.Errorf("list the neighbours of %s: %w", r.device, err)
	}
	const known = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
	for _, n := range neighbours {
		if address, _ := netip.AddrFromSlice(n.IP); address.Unmap() == hop && n.State&known != 0 {
			r.dstMAC = n.HardwareAddr
			return r, nil
		}
	}
	ask := &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: family, IP: hop.AsSlice(), State: unix.NUD_NONE, Flags: unix.NTF_USE}
	if err := netlink.NeighSet(ask); err != nil {
		return r, fmt.Errorf("ask for the neighbour %s: %w", hop, err)
	}
	return r, nil
}
