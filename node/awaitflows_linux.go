package node

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/node/openflow"
	"github.com/weftnet/weft/ovsdb"
)

const (
	// flowsPeriod is how often flows are counted while they are awaited.
	flowsPeriod = 100 * time.Millisecond
	// flowsStill is how long a bridge has the same number of flows when they are complete. ovn-controller and the agent
	// send theirs in one go, so that there is no such pause before the last one.
	flowsStill = time.Second
)

// AwaitFlows returns when an ovs-vswitchd that has started anew has its flows back: those of ovn-controller on br-int,
// and those of the agent on the bridge to the outside. The error is that of ctx, or of the configuration.
func AwaitFlows(ctx context.Context, config Config) error {
	integration, err := config.openFlow()
	if err != nil {
		return fmt.Errorf("ovs-openflow: %w", err)
	}
	bridges := []ovsdb.Endpoint{integration}
	if config.ownGateway() {
		outside := integration
		outside.Address = filepath.Join(filepath.Dir(integration.Address), config.GatewayBridge+".mgmt")
		bridges = append(bridges, outside)
	}
	var waits sync.WaitGroup
	missing := make([]error, len(bridges))
	for i, bridge := range bridges {
		waits.Go(func() { missing[i] = awaitFlowsOf(ctx, bridge) })
	}
	waits.Wait()
	for _, err := range missing {
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitFlowsOf waits for the flows of a bridge, by its management socket.
func awaitFlowsOf(ctx context.Context, bridge ovsdb.Endpoint) error {
	tick := time.NewTicker(flowsPeriod)
	defer tick.Stop()
	var flows uint32
	since := time.Now()
	for {
		now, err := countFlows(ctx, bridge)
		if ctx.Err() != nil {
			name := strings.TrimSuffix(filepath.Base(bridge.Address), ".mgmt")
			return fmt.Errorf("the flows of %s are not complete: %d have come: %w", name, flows, context.Cause(ctx))
		}
		if err != nil { // ovs-vswitchd may be on its way
			now = 0
		}
		if now != flows {
			flows, since = now, time.Now()
		}
		if flows > 0 && time.Since(since) >= flowsStill {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// countFlows asks a bridge how many flows it has.
func countFlows(ctx context.Context, bridge ovsdb.Endpoint) (uint32, error) {
	conn, err := dialLocal(ctx, bridge)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return askCount(conn)
}

func askCount(conn net.Conn) (uint32, error) {
	if _, err := conn.Write(append(openflow.Message(openflow.Hello, 0), openflow.AggregateAll(1)...)); err != nil {
		return 0, err
	}
	for {
		message, err := openflow.Read(conn)
		if err != nil {
			return 0, err
		}
		switch message[1] {
		case openflow.Error:
			return 0, openflow.Refusal(message)
		case openflow.MultipartReply:
			counted, err := openflow.ParseAggregate(message)
			return counted.Flows, err
		}
	}
}
