package southbound

import (
	"context"
	"log/slog"
	"sync"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

var behindDesc = prometheus.NewDesc("weft_southbound_chassis_behind", "Chassis that do not have the latest "+
	"configuration: their number nb_cfg in the Southbound is smaller than the configuration's. The controller "+
	"raises the configuration's number once in latency-interval.", []string{}, nil)

const (
	// behindFresh is how old a number may be that is told again: whoever scrapes, the server is asked no more often.
	behindFresh = 10 * time.Second
	// behindPatience is how long the server may take to answer.
	behindPatience = 2 * time.Second
)

// behind counts the chassis that are behind when it is scraped. The guard's replica does not have their numbers: with
// each of them it would change, and what is found by its ports would be found anew.
type behind struct {
	client *ovsdb.Client
	now    func() time.Time

	mu      sync.Mutex
	asked   time.Time
	chassis int
	err     error
}

// Describe is part of [prometheus.Collector].
func (b *behind) Describe(out chan<- *prometheus.Desc) { out <- behindDesc }

// Collect is part of [prometheus.Collector]. A server that does not answer has no number.
func (b *behind) Collect(out chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); b.asked.IsZero() || now.Sub(b.asked) >= behindFresh {
		b.asked = now
		if b.chassis, b.err = b.count(); b.err != nil {
			slog.Warn("chassis that are behind cannot be counted", "error", b.err)
		}
	}
	if b.err == nil {
		out <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, float64(b.chassis))
	}
}

// count asks for the latest number, and for those who have a smaller one. What is left of a chassis that is gone counts
// no more.
func (b *behind) count() (chassis int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), behindPatience)
	defer cancel()
	latest, err := b.client.Transact(ctx, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.SBGlobalTable,
		Columns: []string{"nb_cfg"}})
	if err != nil || len(latest[0].Rows) == 0 {
		return 0, err
	}
	late, err := b.client.Transact(ctx, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.ChassisPrivateTable,
		Columns: []string{"name"}, Where: []libovsdb.Condition{
			libovsdb.NewCondition("nb_cfg", libovsdb.ConditionLessThan, latest[0].Rows[0]["nb_cfg"]),
			libovsdb.NewCondition("chassis", libovsdb.ConditionNotEqual, libovsdb.OvsSet{GoSet: []any{}})}})
	if err != nil {
		return 0, err
	}
	return len(late[0].Rows), nil
}
