//go:build linux

package chassis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/tunnel"
)

// relay carries the connections of one ovn-controller to its node.
type relay struct {
	*member
	wait sync.WaitGroup
}

// listen makes the two sockets, which serve until ctx is done.
func (r *relay) listen(ctx context.Context, folder string) error {
	for socket, target := range map[string]tunnel.Target{databaseSocket: tunnel.OVSDB, bridgeSocket: tunnel.OpenFlow} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(folder, socket))
		if err != nil {
			return fmt.Errorf("listen for ovn-controller: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = listener.Close() })
		r.wait.Go(func() { r.accept(ctx, listener, target) })
	}
	return nil
}

func (r *relay) accept(ctx context.Context, listener net.Listener, target tunnel.Target) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files
			r.log.WarnContext(ctx, "cannot take a connection of ovn-controller", "error", err)
			signal.Sleep(ctx, watchEvery)
			continue
		}
		r.wait.Go(func() { r.carry(ctx, conn, target) })
	}
}

// carry is one stream. Where there is none the connection is closed: ovn-controller tries again, with
// pauses of its own.
func (r *relay) carry(ctx context.Context, local net.Conn, target tunnel.Target) {
	defer local.Close()
	address := r.status.dialAddress()
	remote, err := tunnel.Dial(ctx, address, target, r.credentials, tunnel.AgentName(r.name))
	if ctx.Err() != nil {
		if err == nil {
			remote.Close()
		}
		return
	}
	if err != nil {
		reason, news := r.status.failed(target, err)
		r.metrics.refused(r.name, reason)
		if news {
			r.log.WarnContext(ctx, "no stream to the node's agent; it is tried again, and logged when the reason changes",
				"address", address, "target", target, "reason", reason, "error", err)
		}
		return
	}
	if r.status.opened(target) {
		r.log.InfoContext(ctx, "the node's agent is reached again", "address", address)
	}
	defer r.status.closed(target)
	streams := r.metrics.streams.WithLabelValues(r.name, string(target))
	streams.Inc()
	defer streams.Dec()
	bytes := map[tunnel.Direction]prometheus.Counter{}
	for _, direction := range []tunnel.Direction{tunnel.ToNode, tunnel.FromNode} {
		bytes[direction] = r.metrics.bytes.WithLabelValues(r.name, string(target), string(direction))
	}
	if target == tunnel.OVSDB {
		remote = r.guard.through(remote, r.status.trust)
	}
	err = tunnel.Join(ctx, local, remote, func(direction tunnel.Direction, n int) error {
		if r.over() {
			return errTermOver
		}
		bytes[direction].Add(float64(n))
		return nil
	})
	if refused := new(refusedDatabase); errors.As(err, &refused) {
		r.refuse(ctx, refused)
		return
	}
	r.log.DebugContext(ctx, "stream ended", "target", target, "error", err)
}

// refuse tells that the node's database was not let through. ovn-controller tries again, and goes on
// with what it has.
func (r *relay) refuse(ctx context.Context, refused *refusedDatabase) {
	r.metrics.refused(r.name, badDatabase)
	if !r.status.distrust(refused.text) {
		return
	}
	r.log.ErrorContext(ctx, "the node's database asks for what the node may not have; ovn-controller does not get "+
		"to read it", "error", refused)
	r.report(chassisDatabaseRefused, "the chassis host does not let the node's Open vSwitch database through to "+
		"ovn-controller: "+refused.text+"; running pods keep their flows, new ones wait")
}
