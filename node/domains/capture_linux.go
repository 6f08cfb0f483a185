package domains

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// receiveBuffer holds the frames that the agent has not read yet.
const receiveBuffer = 4 << 20

// Open captures a source's frames, in the calling thread's network namespace. Each Read gives one frame, and
// an error once the device is gone or down.
func Open(s Source) (io.ReadCloser, error) {
	link, err := net.InterfaceByName(s.Device)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", s.Device, err)
	}
	program, err := bpf.Assemble(filter(s))
	if err != nil {
		return nil, fmt.Errorf("make the filter of device %s: %w", s.Device, err)
	}
	// Protocol 0 takes no frames, so that none comes before the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "frames of "+s.Device)
	code := make([]unix.SockFilter, len(program))
	for i, in := range program {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer),
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)),
			Filter: &code[0]}))
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture the frames of device %s: %w", s.Device, err), socket.Close())
	}
	return socket, nil
}

// networkOrder is a number whose bytes in memory are in the network's order.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}
