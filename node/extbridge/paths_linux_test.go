package extbridge

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/nodetest/hyperv"
)

// Every way of a packet, with the shared address.
func TestPaths(t *testing.T) {
	testPaths(t, ready(t, false))
}

// The same without what Hyper-V's datapath has not; it has no wildcards either.
func TestPathsLikeHyperV(t *testing.T) {
	w := newWorld(t, false)
	w.likeHyperV()
	w.install()
	w.plugGateway()
	w.likeHyperV() // the new port's bridge has looked at the datapath again
	w.install()
	testPaths(t, w)
}

// likeHyperV takes from the datapath what the one of Hyper-V has not, and has the flows made for that.
func (w *world) likeHyperV() {
	w.tb.Helper()
	control := "--target=" + filepath.Join(filepath.Dir(strings.TrimPrefix(w.target, "unix:")), nodetest.Vswitchd+".ctl")
	for _, bridge := range []string{"br-ex", "br-gw"} {
		for _, feature := range hyperv.Features {
			if answer := w.ovn.Run("ovs-appctl", control, "dpif/set-dp-features", bridge, feature.Name,
				feature.Value); answer != "" {
				w.tb.Fatalf("%s of %s: %s", feature.Name, bridge, answer)
			}
		}
	}
	w.ovn.Run("ovs-appctl", control, "upcall/disable-megaflows")
	// It keeps fragments, and has no helpers.
	w.bridge.HyperV, w.bridge.LookupFirst, w.bridge.FTP = true, true, true
}

func testPaths(t *testing.T, w *world) {
	w.serve("", ":22", "host")
	w.serveUDP("", ":53", "host")
	w.serve(w.outside, ":80", "outside")
	w.serveUDP(w.outside, ":53", "outside")
	w.serve(w.gateway, ":30080", "gateway")
	w.serveUDP(w.gateway, ":30080", "gateway")
	w.serve(w.gateway, ":80", "gateway")
	w.serve(w.gateway, fmt.Sprint(":", highPort), "gateway")
	w.serveUDP(w.gateway, fmt.Sprint(":", highPort), "gateway")

	for _, f := range []struct {
		name                                string
		host, outside, pod, virtual, second netip.Addr
	}{
		{"IPv4", host4, outside4, pod4, virtual4, second4},
		{"IPv6", host6, outside6, pod6, virtual6, second6},
	} {
		alias, client := contract.OfFamily(contract.HostAliases, f.host), contract.OfFamily(contract.HostClients, f.host)
		for _, test := range []struct {
			name    string
			from    namespace
			network string
			to      string
			server  string
			client  netip.Addr
		}{
			{"outside to host", w.outside, "tcp", on(f.host, 22), "host", f.outside},
			{"outside to host by UDP", w.outside, "udp", on(f.host, 53), "host", f.outside},
			{"host to outside", "", "tcp", on(f.outside, 80), "outside", f.host},
			{"host to outside by UDP", "", "udp", on(f.outside, 53), "outside", f.host},
			{"pod to outside", w.pod, "tcp", on(f.outside, 80), "outside", f.host},
			{"pod to outside by UDP", w.pod, "udp", on(f.outside, 53), "outside", f.host},
			{"node port", w.outside, "tcp", on(f.host, nodePort), "gateway", f.outside},
			{"node port by UDP", w.outside, "udp", on(f.host, nodePort), "gateway", f.outside},
			{"node port that connections may have", w.outside, "tcp", on(f.host, highPort), "gateway", f.outside},
			{"the same by UDP", w.outside, "udp", on(f.host, highPort), "gateway", f.outside},
			{"pod to host by its alias", w.pod, "tcp", on(alias, 22), "host", client},
			{"pod to host by its alias and UDP", w.pod, "udp", on(alias, 53), "host", client},
			{"router to host by its alias", w.gateway, "tcp", on(alias, 22), "host", client},
		} {
			t.Run(f.name+" "+test.name, func(t *testing.T) {
				at := *w
				at.tb = t
				got := at.ask(test.from, test.network, test.to)
				if got.server != test.server || got.client.Addr() != test.client {
					t.Errorf("got %+v, want %s to see %v", got, test.server, test.client)
				}
			})
		}
		if !w.bridge.HyperV { // which tracks nothing of it
			w.carries(w.outside, "", f.host)
			w.carries("", w.outside, f.outside)
		}
		w.ping(w.outside, f.host)
		w.ping("", f.outside)
		w.ping(w.pod, f.outside)
		w.ping(w.pod, alias)
		w.ping(w.outside, f.host, "-s", "4000")
		w.ping("", f.outside, "-s", "4000")
		w.ping(w.pod, f.outside, "-s", "4000")
		w.ping(w.pod, alias, "-s", "4000")
		for _, test := range []struct {
			from namespace
			to   string
		}{{w.outside, on(f.host, 53)}, {"", on(f.outside, 53)}, {w.pod, on(f.outside, 53)}, {w.outside, on(f.host, nodePort)},
			{w.outside, on(f.host, highPort)}, {w.pod, on(alias, 53)}} {
			nodetest.Eventually(t, 8*time.Second, func() error {
				conn, err := dial(test.from, "udp", "", test.to, brief)
				if err != nil {
					return err
				}
				defer conn.Close()
				_, err = say(conn, strings.Repeat("x", 4000), brief)
				return err
			})
		}
	}
}

// An address of the cluster's is nobody's outside, whatever a Service says: its pod has the host's address there.
func TestNoEntryTakesAPodsConnections(t *testing.T) {
	w := ready(t, false)
	w.serve(w.outside, ":80", "outside")
	for _, f := range []struct{ pod, host, outside netip.Addr }{{pod4, host4, outside4}, {pod6, host6, outside6}} {
		w.ask(w.pod, "tcp", on(f.outside, 80)) // neighbours are found
		w.entries = append(w.entries, Entry{Addr: f.pod, Protocol: "tcp", Port: 40000})
		w.install()
		conn, err := dial(w.pod, "tcp", on(f.pod, 40000), on(f.outside, 80), nodetest.Patience)
		if err != nil {
			t.Error(err)
			continue
		}
		defer conn.Close()
		if got, err := say(conn, "hello", nodetest.Patience); err != nil || got.client.Addr() != f.host {
			t.Errorf("pod %v is %v outside, %v", f.pod, got.client, err)
		}
	}
}
