package ovn

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pools"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovsdb"
)

// hostingChassis is the key in a router port's status that ovn-northd keeps: the chassis that has the port.
const hostingChassis = "hosting-chassis"

// hostingSpacing is the least time between two looks at which chassis host addresses: a Northbound that changes
// all the time needs no more.
const hostingSpacing = 200 * time.Millisecond

// Hosting is part of [database].
func (e engine) Hosting() map[part.Event]string {
	now := map[part.Event]string{}
	for _, port := range ovsdb.List(e.Client(), func(p *nb.LogicalRouterPort) bool {
		return p.Status[hostingChassis] != ""
	}) {
		switch word, name, key := records.RowOf(port.ExternalIDs); {
		case word == objects.EgressKind.String() && key == "external":
			now[part.Signal{What: egress.Hosting, Name: name}] = port.Status[hostingChassis]
		case port.ExternalIDs[ovsdb.OwnerMark] == string(northbound.LivenessOwner):
			now[part.Signal{What: pools.LivenessMoved, Name: key}] = port.Status[hostingChassis]
		}
	}
	return now
}

// WatchHosting is part of [database].
func (e engine) WatchHosting(ctx context.Context, known map[part.Event]string,
	moved func(what part.Event, chassis string)) {
	for ctx.Err() == nil {
		changed := e.Client().Changed()
		now := e.Hosting()
		for k, chassis := range now {
			if known[k] != chassis {
				moved(k, chassis)
			}
		}
		for k := range known {
			if now[k] == "" {
				moved(k, "")
			}
		}
		known = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(hostingSpacing):
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// hostingSource adds to a source which chassis has an EgressIP's addresses, and which one has the port
// that shows whether a node lives, as the Northbound says.
type hostingSource struct {
	source
	mu      sync.Mutex
	chassis map[part.Event]string
}

// newHostingSource begins with what the Northbound says now: a term's first write shall know who lives and who carries.
func newHostingSource(s source, hosting map[part.Event]string) *hostingSource {
	return &hostingSource{source: s, chassis: maps.Clone(hosting)}
}

func (c *hostingSource) Get(e part.Event) any {
	if _, ok := e.(part.Signal); !ok {
		return c.source.Get(e)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chassis[e]
}

// keys are also those whose chassis is known.
func (c *hostingSource) Keys() []part.Event {
	keys := c.source.Keys()
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.chassis {
		keys = append(keys, k)
	}
	return keys
}

// moved is told that a port is on another chassis.
func (l *leader) moved(k part.Event, chassis string) {
	c, ok := l.source.(*hostingSource)
	if !ok {
		return
	}
	c.mu.Lock()
	c.chassis[k] = chassis
	if chassis == "" {
		delete(c.chassis, k)
	}
	c.mu.Unlock()
	l.queue.Add(k, false)
}
