// Package latency measures how long what is in the Northbound takes to ovn-northd and to all chassis.
//
// OVN has numbers for that, which tell nothing by themselves: somebody must raise nb_cfg of NB_Global. ovn-northd
// copies the number to sb_cfg when the Southbound has what was in the Northbound then, and to hv_cfg when all chassis
// have it.
package latency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// Meter raises the number of the Northbound's configuration, and measures how long the number is on its way.
type Meter struct {
	interval        time.Duration
	northd, chassis prometheus.Histogram
	log             *slog.Logger
}

// bounds of the histograms, in seconds. Large clusters take seconds, and one whose daemons hang takes minutes.
var bounds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60}

// New measures once in an interval, and never if it is 0.
func New(interval time.Duration, log *slog.Logger) *Meter {
	return &Meter{interval: interval, log: log,
		northd: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weft_controller_southbound_seconds", Buckets: bounds,
			Help: "Seconds until the Southbound has the state of the Northbound, as ovn-northd reports it. Once in " +
				"latency-interval the controller that leads raises nb_cfg, and begins a measurement if none goes on. So " +
				"the histogram gets no value until ovn-northd has come to the number of the measurement."}),
		chassis: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weft_controller_chassis_seconds", Buckets: bounds,
			Help: "Seconds until all chassis have the state of the Northbound, as ovn-northd reports it. Once in " +
				"latency-interval the controller that leads raises nb_cfg, and begins a measurement if none goes on. So " +
				"the histogram gets no value until all chassis have come to the number of the measurement."}),
	}
}

// Metrics are to be registered with Prometheus.
func (m *Meter) Metrics() []prometheus.Collector { return []prometheus.Collector{m.northd, m.chassis} }

// trip is a number on its way. There is one at a time: as long as some chassis does not come, the others would be as
// late as the first.
type trip struct {
	seconds prometheus.Observer
	number  int // 0: none is on its way
	since   time.Time
}

func (t *trip) begin(number int, since time.Time) {
	if t.number == 0 {
		t.number, t.since = number, since
	}
}

// look sees how far the daemons have come, of the latest number. A database that was restored may have a smaller one.
func (t *trip) look(reached, latest int) {
	switch {
	case t.number == 0:
	case latest < t.number:
		t.number = 0
	case reached >= t.number:
		t.seconds.Observe(time.Since(t.since).Seconds())
		t.number = 0
	}
}

// Run measures until ctx is done. It has a connection of its own: whoever waits on that of the controller is woken by
// each change of the Northbound. Nor does it need the controller's fence, since one number more does no harm.
func (m *Meter) Run(ctx context.Context, config ovsdb.Config) error {
	if m.interval == 0 {
		return nil
	}
	config.Tables = []ovsdb.Table{table}
	client, err := ovsdb.Connect(ctx, config)
	if err != nil {
		return fmt.Errorf("measure the latency of OVN: %w", err)
	}
	defer client.Close()
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	northd, chassis := trip{seconds: m.northd}, trip{seconds: m.chassis}
	for {
		changed := client.Changed()
		for _, global := range ovsdb.List[nb.NBGlobal](client, nil) {
			northd.look(global.SbCfg, global.NbCfg)
			chassis.look(global.HvCfg, global.NbCfg)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C:
			if !client.Connected() {
				continue
			}
			began := time.Now()
			number, err := m.raise(ctx, client)
			if err != nil {
				m.log.Warn("the latency of OVN is not measured now", "error", err)
				continue
			}
			northd.begin(number, began)
			chassis.begin(number, began)
		}
	}
}

// raise gives the configuration the next number.
func (m *Meter) raise(ctx context.Context, client *ovsdb.Client) (number int, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.interval)
	defer cancel()
	return raise(ctx, client)
}

// table is that of the numbers.
var table = ovsdb.Table{Model: &nb.NBGlobal{}, Read: []string{"nb_cfg", "sb_cfg", "hv_cfg"}}

// CatchUp returns when ovn-northd has taken in all that was in the Northbound at the call. An error says that ctx has
// ended before, or that there is no number to raise.
func CatchUp(ctx context.Context, config ovsdb.Config) error {
	config.Tables = []ovsdb.Table{table}
	client, err := ovsdb.Connect(ctx, config)
	if err != nil {
		return fmt.Errorf("wait for ovn-northd: %w", err)
	}
	defer client.Close()
	number, err := raise(ctx, client)
	if err != nil {
		return err
	}
	if err := client.WaitFor(ctx, func() bool {
		return slices.ContainsFunc(ovsdb.List[nb.NBGlobal](client, nil), func(row *nb.NBGlobal) bool {
			return row.SbCfg >= number || row.NbCfg < number // as in a backup that was restored
		})
	}); err != nil {
		return fmt.Errorf("wait for ovn-northd, which has not come to nb_cfg %d: %w", number, err)
	}
	return nil
}

func raise(ctx context.Context, client *ovsdb.Client) (number int, err error) {
	row := libovsdb.NewCondition("nb_cfg", libovsdb.ConditionGreaterThanOrEqual, 0) // of the table's only row
	results, err := client.Transact(ctx,
		libovsdb.Operation{Op: libovsdb.OperationMutate, Table: nb.NBGlobalTable, Where: []libovsdb.Condition{row},
			Mutations: []libovsdb.Mutation{*libovsdb.NewMutation("nb_cfg", libovsdb.MutateOperationAdd, 1)}},
		libovsdb.Operation{Op: libovsdb.OperationSelect, Table: nb.NBGlobalTable, Columns: []string{"nb_cfg"}})
	if err != nil {
		return 0, fmt.Errorf("raise nb_cfg of NB_Global: %w", err)
	}
	if len(results) < 2 || len(results[1].Rows) == 0 {
		return 0, errors.New("raise nb_cfg of NB_Global: the table has no row; ovn-northd makes one when it runs")
	}
	value, _ := results[1].Rows[0]["nb_cfg"].(float64)
	return int(value), nil
}
