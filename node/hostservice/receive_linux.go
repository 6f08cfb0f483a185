package hostservice

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedReceiver takes a buffer only when there is a datagram: sessions are many, and mostly silent.
type sharedReceiver struct{ raw syscall.RawConn }

var buffers = sync.Pool{New: func() any { return new([largestDatagram]byte) }}

func newReceiver(conn net.Conn) receiver {
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return sharedReceiver{raw}
		}
	}
	return &plainReceiver{conn, make([]byte, largestDatagram)}
}

func (r sharedReceiver) receive(deliver func([]byte)) error {
	var failure error
	err := r.raw.Read(func(fd uintptr) bool {
		buffer := buffers.Get().(*[largestDatagram]byte)
		defer buffers.Put(buffer)
		var n int
		for {
			if n, failure = unix.Read(int(fd), buffer[:]); !errors.Is(failure, unix.EINTR) {
				break
			}
		}
		if errors.Is(failure, unix.EAGAIN) {
			return false
		}
		if failure == nil {
			deliver(buffer[:n])
		}
		return true
	})
	return errors.Join(err, failure)
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
