package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/test/freeport"
)

// TestCountersOfARealSwitch: the observer is told what flows of a cookie have counted in all tables, and nobody
// else is.
func TestCountersOfARealSwitch(t *testing.T) {
	o := nodetest.StartOVN(t)
	o.VS("--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type="+nodetest.Datapath(),
		"fail_mode=secure")
	bridge := "unix:" + filepath.Join(filepath.Dir(strings.TrimPrefix(o.OVSDatabase(), "unix:")), "br-int.mgmt")
	for _, flow := range []string{
		"cookie=0x80000001,table=5,priority=2001,ip,actions=resubmit(,6)",
		"cookie=0x80000001,table=6,priority=7,udp,actions=drop",
		"cookie=0x2,table=6,priority=6,tcp,actions=drop", "cookie=0x180000001,table=6,priority=5,arp,actions=drop",
		"cookie=0x3,table=6,priority=8,udp,tp_dst=9,actions=drop",
	} {
		o.Run("ovs-ofctl", "add-flow", bridge, flow)
	}
	c, ca := nodeconfig.Default(), newAuthority(t)
	c.NodeName, c.OVSOpenFlow, c.TunnelAddress = "n1", bridge, freeport.Address(t)
	c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey = ca.issue(tunnel.AgentName("n1"), time.Now().Add(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- newAgentTunnel(c).serve(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	observer := tunnel.Files(ca.issue(tunnel.ObserverName, time.Now().Add(time.Hour)))

	ask := func(cookies ...uint32) contract.CountersReply {
		t.Helper()
		reply, err := askAgent(t, c.TunnelAddress, observer, cookies)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(reply.Counters, func(a, b contract.Counter) int { return int(int64(a.Cookie) - int64(b.Cookie)) })
		return reply
	}
	want := []contract.Counter{{Cookie: 2}, {Cookie: 3}, {Cookie: 0x80000001}}
	if got := ask(0x80000001, 2, 3, 4).Counters; !reflect.DeepEqual(got, want) {
		t.Errorf("before any packet: %+v, want %+v", got, want)
	}
	const udp = "0a580af400020a580af4000308004500001c0000000040110000" + "0af400030af40002" + "0007000700080000"
	for range 2 {
		o.Run("ovs-ofctl", "packet-out", bridge, "in_port=LOCAL packet="+udp+" actions=resubmit(,5)")
	}
	const length = uint64(len(udp) / 2)
	want[2].Packets, want[2].Bytes = 4, 4*length // in two tables
	nodetest.Eventually(t, 10*time.Second, func() error {
		if got := ask(0x80000001, 2, 3, 4).Counters; !reflect.DeepEqual(got, want) {
			return fmt.Errorf("after two packets: %+v, want %+v", got, want)
		}
		return nil
	})
	if reply := ask(); len(reply.Counters) != 0 || reply.Error != "" {
		t.Errorf("asked for nothing, it says %+v", reply)
	}
	many := make([]uint32, contract.MaxCookies)
	for i := range many {
		many[i] = 1 << 31
	}
	many[len(many)-1] = 0x80000001
	if reply := ask(many...); !reflect.DeepEqual(reply.Counters, want[2:]) {
		t.Errorf("asked for the most that may be, it says %+v", reply)
	}
	if reply := ask(append(many, 1)...); !strings.Contains(reply.Error, "the most are") || len(reply.Counters) != 0 {
		t.Errorf("asked for more, it says %+v", reply)
	}
	refusesOthers(t, c.TunnelAddress, ca, tunnel.Counters)
}

// refusesOthers: what is for a door, nobody else gets, and a door gets no more.
func refusesOthers(t *testing.T, address string, ca *authority, target tunnel.Target) {
	t.Helper()
	for name, target := range map[string]tunnel.Target{tunnel.AgentName("n1"): target, tunnel.AgentName("n2"): target,
		tunnel.HostName: target, tunnel.ObserverName: tunnel.OVSDB} {
		conn, err := tunnel.Dial(t.Context(), address, target,
			tunnel.Files(ca.issue(name, time.Now().Add(time.Hour))), tunnel.AgentName("n1"))
		if refused := new(tunnel.Error); !errors.As(err, &refused) || !refused.ByPeer {
			t.Errorf("%s gets %s: %v %v", name, target, conn, err)
		}
	}
}

func askAgent(
	t *testing.T, address string, observer tunnel.Credentials, cookies []uint32,
) (reply contract.CountersReply, err error) {
	t.Helper()
	var conn net.Conn
	nodetest.Eventually(t, 10*time.Second, func() (err error) {
		conn, err = tunnel.Dial(t.Context(), address, tunnel.Counters, observer, tunnel.AgentName("n1"))
		return err
	})
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(contract.CountersRequest{Cookies: cookies}); err != nil {
		return reply, err
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return reply, err
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 1 {
		return reply, fmt.Errorf("after its answer it says %q, %w", rest, err)
	}
	return reply, nil
}

// TestMetricsForADoor: it gets what the agent's registry has, and then the stream ends.
func TestMetricsForADoor(t *testing.T) {
	c, ca := nodeconfig.Default(), newAuthority(t)
	c.NodeName, c.TunnelAddress = "n1", freeport.Address(t)
	c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey = ca.issue(tunnel.AgentName("n1"), time.Now().Add(time.Hour))
	served, registry := newAgentTunnel(c), prometheus.NewRegistry()
	pods := prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_test_pods", Help: "Pods."})
	pods.Set(7)
	registry.MustRegister(pods)
	served.metrics = registry
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- served.serve(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	observer := tunnel.Files(ca.issue(tunnel.ObserverName, time.Now().Add(time.Hour)))
	nodetest.Eventually(t, 10*time.Second, func() error {
		conn, err := tunnel.Dial(t.Context(), c.TunnelAddress, tunnel.Metrics, observer, tunnel.AgentName("n1"))
		if err != nil {
			return err
		}
		defer conn.Close()
		text, err := io.ReadAll(conn)
		if want := "# HELP weft_test_pods Pods.\n# TYPE weft_test_pods gauge\nweft_test_pods 7\n"; string(text) != want {
			return fmt.Errorf("it says %q, %w, want %q", text, err, want)
		}
		return err
	})
	refusesOthers(t, c.TunnelAddress, ca, tunnel.Metrics)
	refusesOthers(t, c.TunnelAddress, ca, tunnel.Connections)
}
