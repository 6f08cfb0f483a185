package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/nodeconfig"
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
func AwaitFlows(ctx context.Context, config nodeconfig.Config) error {
	integration, err := config.OpenFlow()
	if err != nil {
		return fmt.Errorf("ovs-openflow: %w", err)
	}
	bridges := []awaited{{bridge: integration}}
	if config.OwnGateway() {
		bridges = append(bridges, ofOutside(config, integration))
	}
	var waits sync.WaitGroup
	missing := make([]error, len(bridges))
	for i, bridge := range bridges {
		waits.Go(func() { missing[i] = bridge.come(ctx) })
	}
	waits.Wait()
	return errors.Join(missing...)
}

// ofOutside are the agent's flows of the bridge to the outside. It may have flows of others, and has one of Open
// vSwitch's own from its start.
func ofOutside(config nodeconfig.Config, integration ovsdb.Endpoint) awaited {
	outside := integration
	outside.Address = filepath.Join(filepath.Dir(integration.Address), config.GatewayBridge+".mgmt")
	return awaited{outside, extbridge.CookieMark, extbridge.CookieMask}
}

// awaited are the flows with some cookies of a bridge, by its management socket.
type awaited struct {
	bridge       ovsdb.Endpoint
	cookie, mask uint64
}

// come waits for them.
func (a awaited) come(ctx context.Context) error {
	if flows, err := complete(ctx, a.count); err != nil {
		name := strings.TrimSuffix(filepath.Base(a.bridge.Address), ".mgmt")
		return fmt.Errorf("the flows of %s are not complete: %d have come: %w", name, flows, err)
	}
	return nil
}

// complete counts flows until there are some and their number stays the same. The error is that of ctx.
func complete(ctx context.Context, count func(context.Context) (uint32, error)) (flows uint32, err error) {
	tick := time.NewTicker(flowsPeriod)
	defer tick.Stop()
	since := time.Now()
	for {
		now, err := count(ctx)
		if ctx.Err() != nil {
			return flows, context.Cause(ctx)
		}
		if err != nil { // ovs-vswitchd may be on its way
			now = 0
		}
		if now != flows {
			flows, since = now, time.Now()
		}
		if flows > 0 && time.Since(since) >= flowsStill {
			return flows, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// count asks the bridge how many of them it has.
func (a awaited) count(ctx context.Context) (uint32, error) {
	conn, err := local.Dial(ctx, a.bridge)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(append(openflow.Message(openflow.Hello, 0),
		openflow.AggregateMasked(1, a.cookie, a.mask)...)); err != nil {
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
