package latency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// often is the interval of tests.
const often = 20 * time.Millisecond

// ahead is a number that no configuration of a test reaches. ovn-northd takes a chassis that is further ahead than 2^31
// for one whose numbers have begun anew, and by the order of the rows it then takes this one's for the smallest
// (northd/ovn-northd.c, update_sequence_numbers, since OVN 23.09).
const ahead = 1 << 30

// network is real databases, and ovn-northd between them.
type network struct {
	*testing.T
	north, south *ovsdbtest.Process
}

// measure has a meter run until the test ends.
func (n *network) measure(m *Meter) {
	n.Helper()
	database := ovsdbtest.Northbound(n)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- m.Run(ctx, ovsdb.Config{Endpoints: n.north.Endpoint, Model: database.Model, Logger: ovsdbtest.Logger(n)})
	}()
	n.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			n.Error(err)
		}
	})
}

// number is what the Northbound's row has in a column.
func (n *network) number(column string) (number int) {
	n.Helper()
	text := ovsdbtest.Run(n, "ovn-nbctl", "--db="+n.north.Endpoint, "get", "NB_Global", ".", column)
	if _, err := fmt.Sscan(text, &number); err != nil {
		n.Fatalf("%s: %q: %v", column, text, err)
	}
	return number
}

// chassis adds one that has the configuration of a number.
func (n *network) chassis(name, address string, number int) {
	n.Helper()
	ovsdbtest.Run(n, "ovn-sbctl", strings.Fields(fmt.Sprintf("--db=%s --id=@e create Encap type=geneve ip=%[4]s "+
		"chassis_name=%[2]s -- --id=@c create Chassis name=%[2]s encaps=@e -- create Chassis_Private name=%[2]s "+
		"chassis=@c nb_cfg=%[3]d", n.south.Endpoint, name, number, address))...)
}

// catchUp has a chassis say that it has the configuration of a number.
func (n *network) catchUp(name string, number int) {
	n.Helper()
	ovsdbtest.Run(n, "ovn-sbctl", "--db="+n.south.Endpoint, "set", "Chassis_Private", name, fmt.Sprintf("nb_cfg=%d",
		number))
}

func (n *network) eventually(what string, condition func() bool) {
	n.Helper()
	nodetest.Eventually(n, nodetest.Patience, func() error {
		if !condition() {
			return errors.New(what)
		}
		return nil
	})
}

// observed is how often a histogram was told, and the sum of that.
func observed(t *testing.T, h prometheus.Histogram) (count uint64, sum float64) {
	t.Helper()
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum()
}

func counted(t *testing.T, h prometheus.Histogram) int {
	count, _ := observed(t, h)
	return int(count)
}

// TestChassisThatAreBehind: ovn-northd is measured again and again, and the chassis when the last one has come. A
// restart of the Northbound's server does not end that, and a number that is lost is not waited for.
func TestChassisThatAreBehind(t *testing.T) {
	n := &network{t, ovsdbtest.Server(t, ovsdbtest.Northbound(t)), ovsdbtest.Server(t, ovsdbtest.Southbound(t))}
	m := New(often, ovsdbtest.Logger(t))
	ovsdbtest.Northd(t, n.north, n.south)
	n.eventually("ovn-northd has not begun", func() bool {
		_, err := ovsdbtest.Try(t, "ovn-sbctl", "--db="+n.south.Endpoint, "get", "SB_Global", ".", "nb_cfg")
		return err == nil
	})
	n.chassis("l1", "192.0.2.1", ahead)
	n.chassis("l2", "192.0.2.2", 0)
	began := time.Now()
	n.measure(m)
	n.eventually("ovn-northd is not measured", func() bool { return counted(t, m.northd) >= 5 })
	if count := counted(t, m.chassis); count != 0 {
		t.Errorf("all chassis have come %d times, and one has never", count)
	}
	n.catchUp("l2", 3)
	n.eventually("the chassis are not measured", func() bool { return counted(t, m.chassis) > 0 })
	if count, sum := observed(t, m.chassis); count != 1 || sum <= 0 || sum > time.Since(began).Seconds() {
		t.Errorf("%d configurations took %f s, and one has come", count, sum)
	}
	n.catchUp("l2", ahead)
	n.eventually("the chassis are measured once", func() bool { return counted(t, m.chassis) >= 5 })

	n.north.Kill()
	before := counted(t, m.northd)
	n.north.Start()
	n.eventually("nothing is measured after a restart", func() bool { return counted(t, m.northd) > before+2 })

	n.catchUp("l2", 0)
	n.eventually("hv_cfg does not follow", func() bool { return n.number("hv_cfg") == 0 })
	n.eventually("no number is on its way", func() bool { return n.number("nb_cfg") > n.number("hv_cfg")+5 })
	before = counted(t, m.chassis)
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+n.north.Endpoint, "set", "NB_Global", ".", "nb_cfg=1") // as a backup has it
	n.catchUp("l2", ahead)
	n.eventually("nothing is measured after a restore", func() bool { return counted(t, m.chassis) > before+2 })
}

// TestNothingIsCountedUnasked: an interval of 0 writes nothing.
func TestNothingIsCountedUnasked(t *testing.T) {
	n := &network{T: t, north: ovsdbtest.Server(t, ovsdbtest.Northbound(t))}
	if err := New(0, ovsdbtest.Logger(t)).Run(t.Context(), ovsdb.Config{Endpoints: n.north.Endpoint}); err != nil {
		t.Error(err)
	}
	if transactions := n.north.Transactions(); transactions != 0 {
		t.Errorf("the server has %d transactions", transactions)
	}
}

// TestANorthboundWithoutARow is told of with the remedy, and counted when it has one.
func TestANorthboundWithoutARow(t *testing.T) {
	database := ovsdbtest.Northbound(t)
	n := &network{T: t, north: ovsdbtest.Server(t, database)}
	client := ovsdbtest.Connect(t, database, n.north.Endpoint)
	m := New(time.Minute, ovsdbtest.Logger(t))
	if _, err := m.raise(t.Context(), client); err == nil || !strings.Contains(err.Error(), "ovn-northd makes one") {
		t.Errorf("got %v", err)
	}
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+n.north.Endpoint, "init")
	if number, err := m.raise(t.Context(), client); number != 1 || err != nil {
		t.Errorf("got %d, %v", number, err)
	}
}
