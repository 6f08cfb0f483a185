package topology

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// Sources are where the topology is read.
type Sources struct {
	// Northbound and Southbound are the servers beside the door.
	Northbound, Southbound ovsdb.Config
	// Nodes are those that the door watches.
	Nodes func() []*corev1.Node
}

// reading is what the sources have said.
type reading struct {
	at    time.Time
	nodes []*corev1.Node

	switches map[string]*nb.LogicalSwitch // by UUID, as all of these
	ports    map[string]*nb.LogicalSwitchPort
	routers  map[string]*nb.LogicalRouter
	inward   map[string]*nb.LogicalRouterPort
	groups   map[string]int // the number of each group's load balancers
	// balancers is the number of all load balancers.
	balancers int

	chassis map[string]struct{} // the names of all chassis
	claimed map[string]string   // the chassis of a port, by the port's name
	unread  []api.Unread
}

// Read reads both databases. Without a Southbound, no port has a chassis, and the answer says so. Without a Northbound
// there is an error.
func (s *Sources) Read(ctx context.Context) (*api.NetworkTopologyList, error) {
	r := &reading{at: time.Now(), nodes: s.Nodes()}
	var group sync.WaitGroup
	var north, south error
	group.Go(func() { north = r.readNorthbound(ctx, s.Northbound) })
	group.Go(func() { south = r.readSouthbound(ctx, s.Southbound) })
	group.Wait()
	if north != nil {
		return nil, fmt.Errorf("read the Northbound: %w", north)
	}
	if south != nil {
		r.unread = append(r.unread, api.Unread{Source: "OVN_Southbound", Reason: south.Error()})
	}
	return r.list(), nil
}

func (r *reading) readNorthbound(ctx context.Context, config ovsdb.Config) (err error) {
	if config.Model, err = nb.FullDatabaseModel(); err != nil {
		return err
	}
	config.Tables = []ovsdb.Table{
		{Model: &nb.LogicalSwitch{}, Read: []string{"name", "load_balancer", "load_balancer_group"}, Sets: []string{"ports"}},
		{Model: &nb.LogicalSwitchPort{}, Read: []string{"name", "type", "addresses", "options", "up"}},
		{Model: &nb.LogicalRouter{}, Read: []string{"name", "ports", "options", "load_balancer", "load_balancer_group"}},
		{Model: &nb.LogicalRouterPort{}, Read: []string{"name", "mac", "networks"}},
		{Model: &nb.LoadBalancer{}, Read: []string{"name"}},
		{Model: &nb.LoadBalancerGroup{}, Read: []string{"name"}, Sets: []string{"load_balancer"}},
	}
	return ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error {
		r.switches = byUUID(ovsdb.List[nb.LogicalSwitch](client, nil), (*nb.LogicalSwitch).GetUUID)
		r.ports = byUUID(ovsdb.List[nb.LogicalSwitchPort](client, nil), (*nb.LogicalSwitchPort).GetUUID)
		r.routers = byUUID(ovsdb.List[nb.LogicalRouter](client, nil), (*nb.LogicalRouter).GetUUID)
		r.inward = byUUID(ovsdb.List[nb.LogicalRouterPort](client, nil), (*nb.LogicalRouterPort).GetUUID)
		r.balancers = len(ovsdb.List[nb.LoadBalancer](client, nil))
		r.groups = map[string]int{}
		for _, group := range ovsdb.List[nb.LoadBalancerGroup](client, nil) {
			r.groups[group.UUID] = len(group.LoadBalancer)
		}
		return nil
	})
}

func (r *reading) readSouthbound(ctx context.Context, config ovsdb.Config) (err error) {
	if config.Model, err = sb.FullDatabaseModel(); err != nil {
		return err
	}
	config.Tables = []ovsdb.Table{
		{Model: &sb.Chassis{}, Read: []string{"name"}},
		{Model: &sb.PortBinding{}, Read: []string{"logical_port", "chassis"}},
	}
	return ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error {
		r.chassis, r.claimed = map[string]struct{}{}, map[string]string{}
		names := map[string]string{}
		for _, row := range ovsdb.List[sb.Chassis](client, nil) {
			names[row.UUID] = row.Name
			r.chassis[row.Name] = struct{}{}
		}
		for _, row := range ovsdb.List[sb.PortBinding](client, nil) {
			if row.Chassis != nil {
				r.claimed[row.LogicalPort] = names[*row.Chassis]
			}
		}
		return nil
	})
}

func byUUID[T any](rows []*T, uuid func(*T) string) map[string]*T {
	found := make(map[string]*T, len(rows))
	for _, row := range rows {
		found[uuid(row)] = row
	}
	return found
}
