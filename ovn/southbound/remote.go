package southbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovsdb"
)

// remotes keeps the remote chassis of the nodes of other zones. The controller gives each of these nodes a port on the
// transit switch (contract.TransitPort), which says what the node's chassis is called and where its tunnels end. Each
// guard of a Southbound does this, and the first one to do a thing has done it: the server refuses it to the others.
type remotes struct {
	replica *replica
	kept    prometheus.Gauge
	log     *slog.Logger
	said    map[string]string // by node: the problems that the log has
	told    told

	changed     rates // by node: what this guard has made and corrected
	heldBack    rates // by node: what the log has of it
	toldChanges told
}

const (
	// remoteSpacing is at least the time from a look to the next one.
	remoteSpacing = 200 * time.Millisecond
	// remoteShare is so many times as long a pause as a look has taken: it may go through all ports.
	remoteShare = 9
	// remoteRetry is the longest time from a look whose changes were not made to the next one.
	remoteRetry = 5 * time.Second
	// remoteBatch is so many chassis a transaction is about. After failures they are fewer, so that one that the server
	// refuses keeps no others back for long.
	remoteBatch = 512
	// remoteFailures is after how many failures it is one.
	remoteFailures = 9
	// remoteAnswer is how long the server may take to answer.
	remoteAnswer = 30 * time.Second
	// remoteWarning is how often the log has at most that a node is held back.
	remoteWarning = time.Hour
)

var (
	remoteConfig = map[string]string{remoteKey: "true"}
	// remoteTunnel is what ovn-controller writes by default of its own.
	remoteTunnel = map[string]string{"csum": "true"}
)

// run looks after each change of the Southbound until ctx is done.
func (k *remotes) run(ctx context.Context) {
	paced(ctx, k.replica.Changed, func(failures int) (took, again time.Duration, err error) {
		if k.replica.WaitFor(ctx, k.replica.Connected) != nil {
			return 0, 0, nil
		}
		began := time.Now()
		plan := k.replica.planRemotes()
		changes, again := k.pace(plan.changes)
		took = time.Since(began)
		k.kept.Set(float64(plan.kept))
		k.tell(plan.problems)
		if err = k.make(ctx, changes, remoteBatch>>failures); err != nil && ctx.Err() == nil {
			k.fail(err, failures)
		}
		return took, again, err
	})
}

// paced looks at once and after each change, with pauses, until ctx is done. After a failure it looks again without a
// change. A look is told how many failures there were before it. It says how long it has kept a processor busy, and
// after what time there is to be another one without a change, 0 if there need be none.
func paced(ctx context.Context, changed func() <-chan struct{},
	look func(failures int) (took, again time.Duration, err error)) {
	for failures := 0; ctx.Err() == nil; {
		next := changed()
		took, again, err := look(failures)
		var due <-chan time.Time
		if again > 0 {
			due = time.After(again)
		}
		pause := max(remoteSpacing, remoteShare*took)
		if err != nil {
			failures = min(failures+1, remoteFailures)
			pause = max(pause, min(remoteSpacing<<failures, remoteRetry))
		} else {
			failures = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if err != nil {
			continue
		}
		select {
		case <-next:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// fail logs why changes were not made. The first time it says little: another guard may have made them.
func (k *remotes) fail(err error, failures int) {
	level := slog.LevelWarn
	switch {
	case failures == 0:
		level = slog.LevelDebug
	case !k.told.more(""):
		return
	}
	k.log.Log(context.Background(), level, "remote chassis of nodes of other zones are not changed; it is tried again",
		"error", err)
}

// tell logs what is new of problems.
func (k *remotes) tell(problems map[string][]string) {
	maps.DeleteFunc(k.said, func(node, _ string) bool { return problems[node] == nil })
	if k.said == nil {
		k.said = map[string]string{}
	}
	for _, node := range slices.Sorted(maps.Keys(problems)) {
		text := strings.Join(problems[node], "; ")
		if k.said[node] == text || !k.told.more(node) {
			continue
		}
		k.said[node] = text
		k.log.Warn("a node of another zone does not get all tunnels that it is to have", telemetry.Object("Node", "", node),
			"problem", text)
	}
}

// pace is what may be changed now. It says after what time more may be, 0 if that is all.
//
// A stolen node can have the controller write its port again and again, and with each new chassis ovn-northd and all
// ovn-controllers compute everything. So a node has its chassis made and corrected as often as a node of this zone may
// write its own. What removes a chassis waits for nothing: each has been made before, which counts. Each guard of a
// Southbound counts what it has changed itself.
func (k *remotes) pace(changes []remoteChange) (now []remoteChange, again time.Duration) {
	for _, change := range changes {
		var wait time.Duration
		if change.node != nil {
			wait = k.count(change.node.name, 0)
		}
		if wait <= 0 {
			now = append(now, change)
			continue
		}
		if again == 0 || wait < again {
			again = wait
		}
		if k.heldBack.takes(change.node.name, rate.Every(remoteWarning), 1) {
			k.log.Warn("a node of another zone changes its chassis or tunnels often, and its remote chassis follows once a "+
				"minute", telemetry.Object("Node", "", change.node.name), "wait", wait.Round(time.Second))
		}
		if change.takesOver() {
			now = append(now, remoteChange{old: change.old})
		}
	}
	return now, again
}

// count counts so many changes of a node's chassis, and says how long the node's next one waits.
func (k *remotes) count(node string, changes int) time.Duration {
	return k.changed.take(node, changes, rate.Every(chassisTime), chassisBurst)
}

// make makes changes, some in each transaction. What the server refuses holds no others up, and does not count.
func (k *remotes) make(ctx context.Context, changes []remoteChange, size int) error {
	ctx, cancel := context.WithTimeout(ctx, remoteAnswer)
	defer cancel()
	var errs []error
	for some := range slices.Chunk(changes, size) {
		var operations []libovsdb.Operation
		for _, change := range some {
			operations = append(operations, change.operations(len(operations))...)
		}
		_, err := k.replica.Transact(ctx, operations...)
		var refused *ovsdb.OperationError
		switch {
		case err == nil:
			for _, change := range some {
				if change.node != nil {
					k.count(change.node.name, 1)
				}
			}
			if k.toldChanges.more("") {
				k.log.Info("remote chassis of nodes of other zones are changed", "chassis", len(some))
			}
		case errors.As(err, &refused):
			errs = append(errs, err)
		default:
			return err
		}
	}
	return errors.Join(errs...)
}

// operations are those of a change, which comes after so many others in its transaction. They fail if one of the rows
// that the change follows from is no longer so.
func (c *remoteChange) operations(after int) (list []libovsdb.Operation) {
	if c.node != nil {
		list = append(list, c.node.asks())
	}
	if c.old != nil {
		list = append(list, unchanged(c.old))
	}
	correct := c.node != nil && c.old != nil && isKept(c.old)
	if c.old != nil && !correct {
		list = append(list, libovsdb.Operation{Op: libovsdb.OperationDelete, Table: sb.ChassisTable,
			Where: withUUID(c.old.UUID)})
	}
	// ovn-northd would take the number in it for that of a node which does not follow.
	if c.private != nil {
		list = append(list, libovsdb.Operation{Op: libovsdb.OperationDelete, Table: sb.ChassisPrivateTable,
			Where: withUUID(c.private.UUID)})
	}
	if c.node == nil {
		return list
	}
	encaps := libovsdb.OvsSet{}
	for _, address := range c.node.addresses {
		name := fmt.Sprint("encap", after+len(list))
		list = append(list, libovsdb.Operation{Op: libovsdb.OperationInsert, Table: sb.EncapTable, UUIDName: name,
			Row: libovsdb.Row{"chassis_name": c.node.chassis, "ip": address, "type": sb.EncapTypeGeneve,
				"options": mapOf(remoteTunnel)}})
		encaps.GoSet = append(encaps.GoSet, libovsdb.UUID{GoUUID: name})
	}
	write := libovsdb.Operation{Op: libovsdb.OperationInsert, Table: sb.ChassisTable, Row: libovsdb.Row{
		"hostname": c.node.name, "encaps": encaps, "other_config": mapOf(remoteConfig), "external_ids": mapOf(c.node.mark())}}
	if correct { // ports that are bound to it stay so
		write.Op, write.Where = libovsdb.OperationUpdate, withUUID(c.old.UUID)
	} else {
		write.Row["name"] = c.node.chassis
	}
	return append(list, write)
}

// asks fails if the node's port does not ask for its chassis any more.
func (n *remoteNode) asks() libovsdb.Operation {
	where := append(withUUID(n.port.UUID),
		libovsdb.NewCondition("type", libovsdb.ConditionEqual, n.port.Type),
		libovsdb.NewCondition("options", libovsdb.ConditionIncludes, mapOf(map[string]string{
			"requested-chassis": n.chassis})),
		libovsdb.NewCondition("external_ids", libovsdb.ConditionIncludes, mapOf(map[string]string{
			contract.TunnelAddressesKey: n.port.ExternalIDs[contract.TunnelAddressesKey]})))
	return wait(sb.PortBindingTable, where, libovsdb.Row{"type": n.port.Type})
}

// unchanged fails if a chassis is not what it was.
func unchanged(row *sb.Chassis) libovsdb.Operation {
	encaps := libovsdb.OvsSet{}
	for _, id := range row.Encaps {
		encaps.GoSet = append(encaps.GoSet, libovsdb.UUID{GoUUID: id})
	}
	return wait(sb.ChassisTable, withUUID(row.UUID), libovsdb.Row{"hostname": row.Hostname, "encaps": encaps,
		"other_config": mapOf(row.OtherConfig), "external_ids": mapOf(row.ExternalIDs)})
}

// wait fails at once if there is no such row.
func wait(table string, where []libovsdb.Condition, row libovsdb.Row) libovsdb.Operation {
	now := 0
	return libovsdb.Operation{Op: libovsdb.OperationWait, Table: table, Where: where, Timeout: &now, Until: "==",
		Columns: slices.Collect(maps.Keys(row)), Rows: []libovsdb.Row{row}}
}

func withUUID(id string) []libovsdb.Condition {
	return []libovsdb.Condition{libovsdb.NewCondition("_uuid", libovsdb.ConditionEqual, libovsdb.UUID{GoUUID: id})}
}

func mapOf(values map[string]string) libovsdb.OvsMap {
	m := libovsdb.OvsMap{GoMap: map[any]any{}}
	for key, value := range values {
		m.GoMap[key] = value
	}
	return m
}
