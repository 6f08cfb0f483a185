// Package hosting knows which chassis host the router ports of EgressIPs, and those that show which nodes live.
// ovn-northd writes it to the Northbound. The translation takes it in as signals, each with its chassis as its object.
//
// Of packages below ovn it imports part, objects, northbound, records, egress and pools.
package hosting

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

// spacing is the least time between two looks at which chassis host addresses: a Northbound that changes
// all the time needs no more.
const spacing = 200 * time.Millisecond

// Of are the chassis that have the ports of EgressIPs ([egress.Hosting]) and nodes ([pools.LivenessMoved]) now.
func Of(client *ovsdb.Client) map[part.Event]string {
	now := map[part.Event]string{}
	for _, port := range ovsdb.List(client, func(p *nb.LogicalRouterPort) bool {
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

// Watch tells of such ports that are on another chassis than is known, or on none (""), until ctx is done.
func Watch(ctx context.Context, client *ovsdb.Client, known map[part.Event]string,
	moved func(what part.Event, chassis string)) {
	for ctx.Err() == nil {
		changed := client.Changed()
		now := Of(client)
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
		case <-time.After(spacing):
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// Objects are where the objects come from that the controller watches.
type Objects interface {
	Get(part.Event) any
	Keys() []part.Event
}

// Source adds to objects which chassis have such ports. It is safe for use by several goroutines at once.
type Source struct {
	Objects
	mu      sync.Mutex
	chassis map[part.Event]string
}

// NewSource begins with what the Northbound says now: a term's first write must know who lives and who carries.
func NewSource(objects Objects, chassis map[part.Event]string) *Source {
	return &Source{Objects: objects, chassis: maps.Clone(chassis)}
}

// Get is a signal's chassis, or an object.
func (s *Source) Get(e part.Event) any {
	if _, ok := e.(part.Signal); !ok {
		return s.Objects.Get(e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chassis[e]
}

// Keys are those of all objects, and the signals whose chassis is known.
func (s *Source) Keys() []part.Event {
	keys := s.Objects.Keys()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.chassis {
		keys = append(keys, k)
	}
	return keys
}

// Moved takes in that a port is on another chassis, or on none ("").
func (s *Source) Moved(what part.Event, chassis string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chassis[what] = chassis; chassis == "" {
		delete(s.chassis, what)
	}
}
