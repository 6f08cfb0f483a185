//go:build linux

package hyperv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// What the library in ovs-vswitchd and the emulator tell each other beside netlink: see shim/netlink.c.
const (
	answerDone = 0
	answerLost = 1
)

// A datagram of netlink is at most this long here, and a socket's queue of answers and upcalls.
const (
	maxDatagram = 1 << 17
	sendBuffer  = 8 << 20
)

// socket is a netlink socket of ovs-vswitchd.
type socket struct {
	protocol uint32
	port     uint32 // its netlink port id
	conn     *net.UnixConn
	raw      func(func(fd uintptr) bool) error
	gate     *net.UnixConn
}

// newSocket takes the hello of a connection, which brings its gate.
func newSocket(conn *net.UnixConn) (*socket, error) {
	hello, control := make([]byte, 8), make([]byte, unix.CmsgSpace(4))
	n, controls, _, _, err := conn.ReadMsgUnix(hello, control)
	if err != nil {
		return nil, fmt.Errorf("receive the hello: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil || n != len(hello) || len(messages) != 1 {
		return nil, errors.Join(errors.New("the hello brings no gate"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("the hello brings no gate"), err)
	}
	file := os.NewFile(uintptr(fds[0]), "gate")
	defer file.Close()
	gate, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("open the gate: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = raw.Control(func(fd uintptr) {
		// Without the right to it the usual size has to do.
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer) != nil {
			slog.Debug("no large send buffer for a netlink socket")
		}
	})
	return &socket{protocol: native.Uint32(hello), conn: conn, raw: raw.Write, gate: gate.(*net.UnixConn)}, err
}

func (s *socket) answer(word uint32) error {
	_, err := s.gate.Write(binary.NativeEndian.AppendUint32(nil, word))
	return err
}

// takeOrders answers the joining and leaving of groups until the gate closes: nothing is sent to groups.
func (s *socket) takeOrders() {
	order := make([]byte, 8)
	for {
		n, err := s.gate.Read(order)
		if err != nil || n != len(order) {
			return
		}
		if s.answer(answerDone) != nil {
			return
		}
	}
}

// offer queues a datagram and says whether there was room for it: a full socket loses it.
func (s *socket) offer(datagram []byte) bool {
	sent := false
	err := s.raw(func(fd uintptr) bool {
		sent = unix.Send(int(fd), datagram, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) == nil
		return true
	})
	return err == nil && sent
}

// write queues a datagram, and waits for room.
func (s *socket) write(datagram []byte) error {
	_, err := s.conn.Write(datagram)
	return err
}

// reply sends the answers to one request.
func (s *socket) reply(m message, dump bool, bodies [][]byte, err error) error {
	if err != nil || !dump && len(bodies) == 0 {
		return s.write(errorMessage(m, errnoOf(err)).appendTo(nil))
	}
	flags := uint16(0)
	if dump {
		flags = unix.NLM_F_MULTI
	}
	var datagram []byte
	for _, body := range bodies {
		one := message{kind: answerKind(m.kind), flags: flags, seq: m.seq, port: m.port, body: body}
		if len(datagram) > 0 && len(datagram)+len(body) > maxDatagram/4 {
			if err := s.write(datagram); err != nil {
				return err
			}
			datagram = datagram[:0]
		}
		datagram = one.appendTo(datagram)
	}
	if len(datagram) > 0 {
		if err := s.write(datagram); err != nil {
			return err
		}
	}
	if !dump {
		return nil
	}
	end := message{kind: unix.NLMSG_DONE, flags: flags, seq: m.seq, port: m.port, body: make([]byte, 4)}
	return s.write(end.appendTo(nil))
}

// answerKind is what an answer's type is: a connection that is dumped is told as a new one.
func answerKind(kind uint16) uint16 {
	if kind == ctGet {
		return ctNew
	}
	return kind
}

// sockets are those that are open. Requests of several come at once, so they have a lock of their own.
type sockets struct {
	mu       sync.Mutex
	byPort   map[uint32]*socket // by netlink port id
	lastPort uint32
}

// add gives the socket its port id, as the driver numbers its open handles.
func (s *sockets) add(opened *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastPort++
	opened.port = s.lastPort
	s.byPort[opened.port] = opened
}

func (s *sockets) remove(closed *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byPort, closed.port)
}

func (s *sockets) get(port uint32) *socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPort[port]
}
