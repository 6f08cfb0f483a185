package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"
)

// OpenFlow 1.0, as far as one needs it to hold a connection: see section 5.1 of its specification. Every
// version's messages begin alike.
const (
	openFlowVersion   = 1
	openFlowHeader    = 8
	openFlowHello     = 0
	openFlowEchoAsk   = 2
	openFlowEchoReply = 3
	// openFlowSilence is how long ovs-vswitchd may say nothing: it asks for an echo after a minute.
	openFlowSilence = 3 * time.Minute
)

// watchSwitch holds an OpenFlow connection to br-int, whose end is the first that is seen of an
// ovs-vswitchd that ends: its database, which it writes little of at a restart, does not tell. What has
// lost its flows is told as soon as there is a connection again.
func (a *agent) watchSwitch(ctx context.Context) error {
	endpoint, err := a.config.openFlow()
	if err != nil {
		slog.WarnContext(ctx, "a restart of ovs-vswitchd will be noticed late: the external bridge's flows are then away for up to half a minute; set ovs-openflow", "error", err)
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		conn, err := dialLocal(ctx, endpoint)
		if err != nil {
			pause(ctx, flowsAwait)
			continue
		}
		met := false
		err = holdOpenFlow(ctx, conn, func() {
			met = true
			a.flows.lose()
		})
		if met && ctx.Err() == nil { // else it was somebody who could not reach the switch either
			slog.WarnContext(ctx, "the connection to ovs-vswitchd has ended", "connection", endpoint, "error", err)
		}
		pause(ctx, flowsAwait)
	}
	return nil
}

// holdOpenFlow answers what a switch asks of whoever is connected, until the connection or ctx ends. It calls
// met at the switch's first word.
func holdOpenFlow(ctx context.Context, conn net.Conn, met func()) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	hello := [openFlowHeader]byte{openFlowVersion, openFlowHello, 0, openFlowHeader}
	if _, err := conn.Write(hello[:]); err != nil {
		return err
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(openFlowSilence)); err != nil {
			return err
		}
		message, err := readOpenFlow(conn)
		if err != nil {
			return err
		}
		if met != nil {
			met()
			met = nil
		}
		if message[1] != openFlowEchoAsk {
			continue
		}
		message[1] = openFlowEchoReply
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}

// readOpenFlow reads a message, whose header says how long it is.
func readOpenFlow(conn io.Reader) ([]byte, error) {
	var header [openFlowHeader]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("closed by the switch")
		}
		return nil, err
	}
	length := int(binary.BigEndian.Uint16(header[2:]))
	if length < openFlowHeader {
		return nil, fmt.Errorf("a message of %d bytes is not OpenFlow's", length)
	}
	message := make([]byte, length)
	copy(message, header[:])
	_, err := io.ReadFull(conn, message[openFlowHeader:])
	return message, err
}
