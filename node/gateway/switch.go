package gateway

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/openflow"
)

// openFlowSilence is how long ovs-vswitchd may say nothing: it asks for an echo after a minute.
const openFlowSilence = 3 * time.Minute

// WatchSwitch holds an OpenFlow connection to br-int, whose end is the first that is seen of an
// ovs-vswitchd that ends: its database, which it writes little of at a restart, does not tell. What has
// lost its flows is told as soon as there is a connection again.
func (g *Gateway) WatchSwitch(ctx context.Context) error {
	endpoint, err := g.Config.OpenFlow()
	if err != nil {
		slog.WarnContext(ctx, "a restart of ovs-vswitchd will be noticed late: the external bridge's flows are then away "+
			"for up to half a minute; set ovs-openflow", "error", err)
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		conn, err := local.Dial(ctx, endpoint)
		if err != nil {
			signal.Sleep(ctx, flowsAwait)
			continue
		}
		met := false
		err = holdOpenFlow(ctx, conn, func() {
			met = true
			g.FlowsLost()
		})
		if met && ctx.Err() == nil { // else it was somebody who could not reach the switch either
			slog.WarnContext(ctx, "the connection to ovs-vswitchd has ended", "connection", endpoint, "error", err)
		}
		signal.Sleep(ctx, flowsAwait)
	}
	return nil
}

// holdOpenFlow answers what a switch asks of whoever is connected, until the connection or ctx ends. It calls
// met at the switch's first word.
func holdOpenFlow(ctx context.Context, conn net.Conn, met func()) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	hello := [openflow.HeaderSize]byte{openflow.Version10, openflow.Hello, 0, openflow.HeaderSize}
	if _, err := conn.Write(hello[:]); err != nil {
		return err
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(openFlowSilence)); err != nil {
			return err
		}
		message, err := openflow.Read(conn)
		if err != nil {
			return err
		}
		if met != nil {
			met()
			met = nil
		}
		if message[1] != openflow.EchoRequest {
			continue
		}
		message[1] = openflow.EchoReply
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}
