// Package netdev opens network devices for emulators of switches, which read and write whole Ethernet frames.
package netdev

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// MaxFrame is the longest frame that a device gives, in bytes.
const MaxFrame = 1 << 16

// Device is what a port of a switch reads and writes: a call is a frame. Read ends with an error after Close.
type Device = io.ReadWriteCloser

// OpenTap opens the tap of that name, and makes it if there is none. Its frames are those that the other side, a
// network stack, sends. One process at a time has a tap open.
func OpenTap(name string) (Device, error) {
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
	return os.NewFile(uintptr(fd), name), nil
}

// packetDevice is a device of another kind, by a packet socket.
type packetDevice struct {
	*os.File
	raw func(func(fd uintptr) bool) error
}

// Open opens a network device that must be there. Its frames are copies: whoever does not want the host's stack to see
// them, as HNS's emulator does not, drops them there.
func Open(name string) (Device, error) {
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

func (d packetDevice) Read(b []byte) (int, error) {
	for {
		n, err := d.File.Read(b)
		if errors.Is(err, unix.ENETDOWN) { // it says so once, and goes on when the device is up
			continue
		}
		return n, err
	}
}

// Write does not wait for room: a frame for which there is none is lost, as on a wire.
func (d packetDevice) Write(frame []byte) (int, error) {
	var sent error
	err := d.raw(func(fd uintptr) bool {
		_, sent = unix.Write(int(fd), frame)
		return true
	})
	return len(frame), errors.Join(err, sent)
}
