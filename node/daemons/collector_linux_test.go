package daemons

import (
	"fmt"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/unixctl"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// TestRealDaemonsTell: each question is one that the real daemons answer.
func TestRealDaemonsTell(t *testing.T) {
	ovn := nodetest.StartOVN(t)
	ovn.VS("set", "open", ".", "external_ids:system-id=c", "external_ids:ovn-remote="+ovn.Southbound(),
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=127.0.0.1",
		"external_ids:ovn-bridge-datapath-type=netdev")
	list := func() (list []Daemon) {
		for name, program := range map[string]string{"ovs-vswitchd": nodetest.Vswitchd, "ovsdb-server": nodetest.OVSServer,
			"ovn-controller": nodetest.OVNController, "ovn-northd": nodetest.Northd, "ovnnb_db": nodetest.NBServer} {
			list = append(list, Daemon{Name: name, Node: "n", Sockets: []string{ovn.Control(program)}})
		}
		return list
	}
	nodetest.Eventually(t, nodetest.Patience, func() error {
		told := gathered(t, New(list))
		for _, want := range []string{
			`weft_daemon_up{daemon="ovs-vswitchd",node="n"} 1`, `weft_daemon_up{daemon="ovsdb-server",node="n"} 1`,
			`weft_daemon_build_info{daemon="ovn-northd",node="n",version="`,
			`weft_daemon_connected{daemon="ovn-controller",database="OVN_Southbound",node="n"} 1`,
			`weft_daemon_connected{daemon="ovn-northd",database="OVN_Northbound",node="n"} 1`,
			`weft_daemon_active{daemon="ovn-northd",node="n"} 1`,
			`weft_daemon_objects{daemon="ovnnb_db",kind="cells",node="n"}`,
			`weft_daemon_objects{daemon="ovs-vswitchd",kind="rules",node="n"}`,
			`weft_daemon_memory_bytes{daemon="ovn-controller",kind="ofctrl_desired_flow_usage",node="n"}`,
			`weft_daemon_events_total{daemon="ovn-northd",event="northd_run",node="n"}`,
			`weft_daemon_loop_p95_seconds{daemon="ovn-northd",loop="ovn-northd-loop",node="n"}`,
			`weft_daemon_loop_runs_total{daemon="ovn-controller",loop="flow-generation",node="n"}`,
			`weft_datapath_flows{node="n"}`, `weft_datapath_flows_limit{node="n"}`,
			`weft_datapath_lookups_total{node="n",result="lost"}`, `weft_datapath_connections{node="n"} 0`,
			`weft_datapath_connections_limit{node="n"}`,
		} {
			if !strings.Contains(told, want) {
				return fmt.Errorf("no %s in:\n%s", want, told)
			}
		}
		return nil
	})
	ovn.Kill(nodetest.Northd)
	if told := gathered(t, New(list)); !strings.Contains(told, `weft_daemon_up{daemon="ovn-northd",node="n"} 0`) ||
		strings.Contains(told, "weft_daemon_active") {
		t.Errorf("a daemon that is dead: %s", told)
	}
}

// gathered are the samples of one scrape, a line each.
func gathered(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	return page.Body.String()
}

// TestDaemonsAreNotAskedAgainAtOnce, however often they are scraped, and one that hangs costs the others nothing.
func TestDaemonsAreNotAskedAgainAtOnce(t *testing.T) {
	silent := silentSocket(t)
	now, asked := time.Now(), 0
	c := New(func() []Daemon {
		asked++
		return []Daemon{{Name: "ovn-northd", Sockets: []string{silent}}, {Name: "ovs-vswitchd"}}
	})
	c.now = func() time.Time { return now }
	scrape := func(want int) {
		t.Helper()
		if told := testutil.CollectAndCount(c, "weft_daemon_up"); told != 2 || asked != want {
			t.Errorf("%d daemons are told, after %d times of asking; want 2, %d", told, asked, want)
		}
	}
	scrape(1)
	now = now.Add(Fresh - time.Millisecond)
	scrape(1)
	now = now.Add(time.Millisecond)
	scrape(2)
}

// silentSocket is that of a daemon that hangs.
func silentSocket(t *testing.T) string {
	t.Helper()
	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "silent.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	return silent.Addr().String()
}

// TestTheSocketThatAnswersIsTaken: a process that has died leaves its socket, and one that hangs keeps its own.
func TestTheSocketThatAnswersIsTaken(t *testing.T) {
	ovn := nodetest.StartOVS(t)
	dead := filepath.Join(t.TempDir(), "ovs-vswitchd.1.ctl")
	d := Daemon{Name: "ovs-vswitchd", Sockets: append([]string{dead, silentSocket(t)},
		unixctl.Sockets([]string{filepath.Dir(ovn.Control(nodetest.Vswitchd))}, "ovs-vswitchd")...)}
	told := gathered(t, New(func() []Daemon { return []Daemon{d} }))
	for _, want := range []string{"weft_daemon_build_info", "weft_daemon_events_total"} {
		if !strings.Contains(told, "\n"+want+"{") {
			t.Errorf("none of the sockets %v tells %s:\n%s", d.Sockets, want, told)
		}
	}
}

// TestManyDaemonsThatHangMakeNoOtherDown: a chassis host may have hundreds of them.
func TestManyDaemonsThatHangMakeNoOtherDown(t *testing.T) {
	ovn, silent := nodetest.StartOVS(t), silentSocket(t)
	var list []Daemon
	for i := range 5 * together {
		list = append(list, Daemon{Name: "ovn-controller", Node: fmt.Sprint(i), Sockets: []string{silent}})
	}
	list = append(list, Daemon{Name: "ovsdb-server", Node: "sound", Sockets: []string{ovn.Control(nodetest.OVSServer)}})
	told := gathered(t, New(func() []Daemon { return list }))
	if down := strings.Count(told, `weft_daemon_up{daemon="ovn-controller"`); down != 5*together ||
		!strings.Contains(told, `weft_daemon_up{daemon="ovsdb-server",node="sound"} 1`) ||
		!strings.Contains(told, `weft_daemon_objects{daemon="ovsdb-server",kind="cells",node="sound"}`) {
		t.Errorf("%d of %d that hang are told:\n%s", down, 5*together, told)
	}
}
