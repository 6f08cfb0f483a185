package southbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/transcript"
)

// TestNorthdSaysWhichTunnelsANodeMayHave: what weft controller writes to the Northbound gets to where the guard looks.
func TestNorthdSaysWhichTunnelsANodeMayHave(t *testing.T) {
	above, below := ovsdbtest.Northbound(t), ovsdbtest.Southbound(t)
	nb, server := ovsdbtest.Server(t, above), ovsdbtest.Server(t, below)
	ovsdbtest.Northd(t, nb, server)
	r := &replica{Client: ovsdbtest.Connect(t, below, server.Endpoint, tables...)}
	s := &southbound{TB: t}
	set := func(addresses string) {
		ovsdbtest.Run(t, "ovn-nbctl", "--db="+nb.Endpoint, "set", "Logical_Switch_Port", contract.ManagementPort("l1"),
			`external_ids:"`+contract.TunnelAddressesKey+`"="`+addresses+`"`)
	}
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+nb.Endpoint, "ls-add", "l1", "--", "lsp-add", "l1",
		contract.ManagementPort("l1"))
	for _, c := range []struct{ list, has, lacks string }{{"192.0.2.1,2001:db8::1", "2001:db8::1", "192.0.2.2"},
		{"192.0.2.2", "192.0.2.2", "2001:db8::1"}, {"", "", "192.0.2.2"}} {
		set(c.list)
		s.until("the guard does not see "+c.list, func() bool {
			return (c.has == "" || checkTunnelAddress(r, "l1", c.has) == nil) && errors.As(checkTunnelAddress(r, "l1", c.lacks),
				&errUnknown{})
		})
	}
	if err := checkTunnelAddress(r, "l2", "192.0.2.2"); !errors.As(err, &errNotYet{}) {
		t.Errorf("a node that the controller does not know: %v", err)
	}
}

// TestARealNode: ovn-controller makes its chassis and tunnels through the guard, and nothing of it is refused.
func TestARealNode(t *testing.T) {
	for _, all := range []string{"true", "false"} {
		t.Run("ovn-monitor-all="+all, func(t *testing.T) { realNode(t, all) })
	}
}

func realNode(t *testing.T, all string) {
	s := newSouthbound(t)
	var log transcript.Transcript
	s.guard.log = slog.New(slog.NewTextHandler(&log, nil))
	ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "destroy", "Chassis_Private", "l2", "--", "destroy",
		"Chassis", "l2")
	vswitch := ovsdbtest.Server(t, ovsdbtest.OpenVSwitch(t))
	ovsdbtest.Run(t, "ovs-vsctl", "--db="+vswitch.Endpoint, "--no-wait", "init", "--", "set", "Open_vSwitch", ".",
		"external_ids:system-id=l2", "external_ids:hostname=l2",
		"external_ids:ovn-remote="+s.as("l2"), "external_ids:ovn-encap-type=geneve",
		`external_ids:ovn-encap-ip="192.0.2.2,2001:db8::2"`,
		"external_ids:ovn-monitor-all="+all, "--", "add-br", "br-int", "--", "add-port", "br-int", "p2", "--", "set",
		"Interface", "p2", "type=dummy", "external_ids:iface-id=pod2")
	ovsdbtest.Controller(t, vswitch)
	s.until("ovn-controller has no chassis and tunnels", func() bool {
		var ends []string
		for _, row := range ovsdb.List(s.guard.replica.Client, func(r *sb.Encap) bool { return r.ChassisName == "l2" }) {
			ends = append(ends, row.IP)
		}
		return slices.Contains(ends, "192.0.2.2") && slices.Contains(ends, "2001:db8::2") &&
			len(ovsdb.List(s.guard.replica.Client, func(r *sb.Chassis) bool { return r.Name == "l2" })) == 1
	})
	s.until("it does not claim its port", func() bool {
		port := s.guard.replica.ports().named["pod2"]
		return port != nil && s.guard.replica.is(port.Chassis, "l2")
	})
	ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "set", "SB_Global", ".", "nb_cfg=7")
	s.until("it does not see what changes", func() bool {
		return strings.TrimSpace(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=nb_cfg",
			"find", "Chassis_Private", "name=l2")) == "7"
	})
	if refused := count(t, s.guard.metrics.refused); refused != 0 {
		t.Errorf("%v requests of a real ovn-controller are refused: %s", refused, log.String())
	}
}

// TestNothingIsJudgedByWhatWas: without its server the guard knows not what is whose, and accuses nobody.
func TestNothingIsJudgedByWhatWas(t *testing.T) {
	s := newSouthbound(t)
	s.guard.patience = time.Millisecond
	node := &session{guard: s.guard, node: "l2"}
	ask := func() error {
		return node.permit(t.Context(), "transact", []json.RawMessage{json.RawMessage(`"OVN_Southbound"`),
			json.RawMessage(s.names.Replace(
				`{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","{pod2}"]]],"row":{"up":true}}`))})
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	s.server.Kill()
	s.until("the guard does not notice", func() bool { return !s.guard.replica.Connected() })
	if err := ask(); !errors.Is(err, errStale) {
		t.Errorf("judged: %v", err)
	}
	s.server.Start()
	s.until("the guard does not judge again", func() bool { return ask() == nil })
}

// TestHealth: a guard without its server is not ready, and after a while not alive.
func TestHealth(t *testing.T) {
	g := newGate(t)
	m := g.guard.metrics
	m.credentials = g.guard.credentials
	status := func(path string) int {
		w := httptest.NewRecorder()
		m.probes().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, strings.NewReader("")))
		return w.Code
	}
	go m.follow(t.Context(), g.guard.replica.Client)
	g.until("it is not ready", func() bool {
		return status("/readyz") == http.StatusOK && status("/healthz") == http.StatusOK
	})
	g.server.Kill()
	g.until("it is ready without a server", func() bool { return status("/readyz") == http.StatusServiceUnavailable })
	if code := status("/healthz"); code != http.StatusOK {
		t.Errorf("it is not alive at once: %d", code)
	}
	long := time.Now().Add(-restart - time.Second)
	m.lost.Store(&long)
	if code := status("/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("it is alive without a server for long: %d", code)
	}
}

// TestARealNodeStaysWithABusyServer: an ovn-controller that has no answer for several times its probe interval keeps
// its connection.
func TestARealNodeStaysWithABusyServer(t *testing.T) {
	const busy = 4 * time.Second
	s := newSouthbound(t)
	var connections, echoes atomic.Int64
	direct := s.guard.dial
	s.guard.dial = func(ctx context.Context) (net.Conn, error) {
		connections.Add(1)
		conn, err := direct(ctx)
		return &slowConn{Conn: conn, busy: busy, echoes: &echoes}, err
	}
	vswitch := ovsdbtest.Server(t, ovsdbtest.OpenVSwitch(t))
	ovsdbtest.Run(t, "ovs-vsctl", "--db="+vswitch.Endpoint, "--no-wait", "init", "--", "set", "Open_vSwitch", ".",
		"external_ids:system-id=l2", "external_ids:hostname=l2", "external_ids:ovn-remote="+s.as("l2"),
		"external_ids:ovn-remote-probe-interval=1000", "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=192.0.2.2", "--", "add-br", "br-int")
	ovsdbtest.Controller(t, vswitch)
	s.until("ovn-controller does not see what changes", func() bool {
		ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "set", "SB_Global", ".", "nb_cfg=7")
		return strings.TrimSpace(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=nb_cfg",
			"find", "Chassis_Private", "name=l2")) == "7"
	})
	s.until("the server is not asked for its echoes", func() bool { return echoes.Load() > 1 })
	if n := connections.Load(); n != 1 {
		t.Errorf("ovn-controller has connected %d times", n)
	}
}

// slowConn is a connection to a server that is busy with others for some time before it answers an echo. Readings take
// no time: the guard has a node pay for that.
type slowConn struct {
	net.Conn
	busy   time.Duration
	asked  atomic.Bool
	echoes *atomic.Int64 // that the server has answered
}

func (c *slowConn) Write(p []byte) (int, error) {
	c.asked.Store(bytes.Contains(p, []byte(`"method":"echo"`)))
	return c.Conn.Write(p)
}

func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.asked.Swap(false) {
		time.Sleep(c.busy)
		c.echoes.Add(1)
	}
	return n, err
}
