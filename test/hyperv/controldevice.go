//go:build linux

package hyperv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// controlDevice is what ovs-vswitchd opens to talk to the driver: Datapath.c, OvsDeviceControl. Each open socket has a
// goroutine of its own, and each command takes the datapath's lock.
type controlDevice struct {
	log      *slog.Logger
	enabled  atomic.Bool  // the extension, on a switch
	delay    atomic.Int64 // of each command
	sockets  *sockets
	datapath *datapath
	commands map[command]handler
}

func newControlDevice(log *slog.Logger, open *sockets, d *datapath) *controlDevice {
	return &controlDevice{log: log, sockets: open, datapath: d, commands: d.commands()}
}

// serve has ovs-vswitchd's sockets until ctx ends. listener is of type unixpacket.
func (c *controlDevice) serve(ctx context.Context, listener *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a netlink socket: %w", err)
		}
		serving.Go(func() {
			closed := context.AfterFunc(ctx, func() { conn.Close() })
			defer closed()
			defer conn.Close()
			if err := c.serveSocket(conn); err != nil && ctx.Err() == nil {
				c.log.Warn("a netlink socket ends", "err", err)
			}
		})
	}
}

func (c *controlDevice) serveSocket(conn *net.UnixConn) error {
	s, err := newSocket(conn)
	if err != nil {
		return err
	}
	defer s.gate.Close()
	c.sockets.add(s)
	defer c.sockets.remove(s)
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
		if err := c.handle(s, buffer[:n]); err != nil {
			return err
		}
	}
}

// handle works on a datagram of requests and answers each. It is an error if the socket cannot be used
// any more.
func (c *controlDevice) handle(s *socket, datagram []byte) error {
	messages, err := parseMessages(datagram)
	if err != nil {
		return err
	}
	answered := false
	done := func() error {
		answered = true
		return s.answer(answerDone)
	}
	for _, m := range messages {
		if m.kind == unix.GENL_ID_CTRL {
			// What ovs-vswitchd knows by itself on Windows.
			if err := s.write(lookupFamily(m).appendTo(nil)); err != nil {
				return err
			}
			continue
		}
		if !c.enabled.Load() && !ofLinux(m) {
			return s.answer(answerLost)
		}
		c.wait()
		bodies, err := c.dispatch(m)
		dump := m.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
		if dump && !answered { // its answers may need a reader
			if err := done(); err != nil {
				return err
			}
		}
		if err := s.reply(m, dump, bodies, err); err != nil {
			return err
		}
	}
	if answered {
		return nil
	}
	return done()
}

// ofLinux: the ovs-vswitchd of Linux asks of each device that has a route whether it is a port, by its
// name alone (lib/netdev-linux.c, netdev_linux_netnsid_update__). That of Windows has
// lib/netdev-windows.c and lib/route-table-stub.c, and does not.
func ofLinux(m message) bool {
	if m.kind != familyVport || len(m.body) < ovsLength-headerLength || m.body[0] != cmdGet {
		return false
	}
	list, err := parseAttributes(m.body[8:])
	return err == nil && len(list) == 1 && list[0].kind == vportAttrName
}

// wait makes a command take its time.
func (c *controlDevice) wait() {
	if d := time.Duration(c.delay.Load()); d > 0 {
		time.Sleep(d)
	}
}

// dispatch finds the command of a message, and carries it out: ValidateNetlinkCmd and InvokeNetlinkCmdHandler of
// Datapath.c.
func (c *controlDevice) dispatch(m message) ([][]byte, error) {
	r, err := parseRequest(m)
	if err != nil {
		return nil, err
	}
	handle := c.commands[command{m.kind, r.command}]
	if handle == nil {
		return nil, fmt.Errorf("family %#x has no command %d: %w", m.kind, r.command, unix.EINVAL)
	}
	if needsDatapath(m.kind, r.command) && r.dp != datapathNumber {
		return nil, unix.EINVAL
	}
	c.datapath.mu.Lock()
	defer c.datapath.mu.Unlock()
	return handle(r)
}

// needsDatapath: Datapath.c, validateDpIndex of each command.
func needsDatapath(kind uint16, number uint8) bool {
	return kind == familyVport || kind == familyFlow || kind == familyPacket || kind == familyDatapath && number == cmdSet
}
