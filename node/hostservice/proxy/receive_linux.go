package proxy

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedReceiver takes a buffer only when there is a datagram: sockets are many, and mostly silent.
type sharedReceiver struct{ raw syscall.RawConn }

var buffers = sync.Pool{New: func() any { return new([largestDatagram]byte) }}

func newReceiver(conn net.Conn) receiver {
	if raw, ok := rawOf(conn); ok {
		return sharedReceiver{raw}
	}
	return &plainReceiver{conn, make([]byte, largestDatagram)}
}

func newQuestions(listener datagramSocket) questions {
	if raw, ok := rawOf(listener); ok {
		return sharedReceiver{raw}
	}
	return &plainQuestions{listener, make([]byte, largestDatagram)}
}

func rawOf(conn any) (syscall.RawConn, bool) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := socket.SyscallConn()
	return raw, err == nil
}

func (r sharedReceiver) receive(deliver func([]byte)) error {
	return r.read(func(fd int, buffer []byte) error {
		n, err := unix.Read(fd, buffer)
		if err == nil {
			deliver(buffer[:n])
		}
		return err
	})
}

func (r sharedReceiver) receiveFrom(deliver func(netip.AddrPort, []byte)) error {
	return r.read(func(fd int, buffer []byte) error {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if err == nil {
			deliver(addrPortOf(from), buffer[:n])
		}
		return err
	})
}

// read has a datagram read into a buffer as soon as there is one.
func (r sharedReceiver) read(take func(fd int, buffer []byte) error) error {
	var failure error
	err := r.raw.Read(func(fd uintptr) bool {
		buffer := buffers.Get().(*[largestDatagram]byte)
		defer buffers.Put(buffer)
		for {
			if failure = take(int(fd), buffer[:]); !errors.Is(failure, unix.EINTR) {
				return !errors.Is(failure, unix.EAGAIN)
			}
		}
	})
	return errors.Join(err, failure)
}

func addrPortOf(from unix.Sockaddr) netip.AddrPort {
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(from.Addr), uint16(from.Port))
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(from.Addr)
		if from.ZoneId != 0 {
			addr = addr.WithZone(strconv.Itoa(int(from.ZoneId)))
		}
		return netip.AddrPortFrom(addr, uint16(from.Port))
	}
	return netip.AddrPort{}
}

// passing says whether a socket goes on after an error: one that is a router's or a host's word (ICMP) on a
// datagram that was sent before.
func passing(err error) bool {
	for _, one := range []error{unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE, unix.EPERM} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
