//go:build linux

package hyperv

import (
	"context"
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

// Serve has ovs-vswitchd's sockets until ctx ends. listener is of type unixpacket.
func (e *Extension) Serve(ctx context.Context, listener *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var sockets sync.WaitGroup
	defer sockets.Wait()
	for {
		conn, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a netlink socket: %w", err)
		}
		sockets.Go(func() {
			closed := context.AfterFunc(ctx, func() { conn.Close() })
			defer closed()
			defer conn.Close()
			if err := e.serveSocket(conn); err != nil && ctx.Err() == nil {
				e.log.Warn("a netlink socket ends", "err", err)
			}
		})
	}
}

func (e *Extension) serveSocket(conn *net.UnixConn) error {
	s, err := newSocket(conn)
	if err != nil {
		return err
	}
	defer s.gate.Close()
	e.addSocket(s)
	defer e.removeSocket(s)
	if err := s.answer(s.port); err != nil {
		return err
	}
	orders := make(chan struct{})
	go func() {
		defer close(orders)
		s.takeOrders()
	}()
	defer func() {
		s.gate.Close()
		<-orders
	}()
	buffer := make([]byte, maxDatagram)
	for {
		n, _, flags, _, err := conn.ReadMsgUnix(buffer, nil)
		if n == 0 || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive a datagram: %w", err)
		}
		if flags&unix.MSG_TRUNC != 0 {
			return fmt.Errorf("a datagram is longer than %d bytes", maxDatagram)
		}
		if err := e.handle(s, buffer[:n]); err != nil {
			return err
		}
	}
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

// addSocket gives the socket its port id, as the driver numbers its open handles.
func (e *Extension) addSocket(s *socket) {
	e.socketsMu.Lock()
	defer e.socketsMu.Unlock()
	e.lastPort++
	s.port = e.lastPort
	e.sockets[s.port] = s
}

func (e *Extension) removeSocket(s *socket) {
	e.socketsMu.Lock()
	defer e.socketsMu.Unlock()
	delete(e.sockets, s.port)
}

func (e *Extension) socket(port uint32) *socket {
	e.socketsMu.Lock()
	defer e.socketsMu.Unlock()
	return e.sockets[port]
}
