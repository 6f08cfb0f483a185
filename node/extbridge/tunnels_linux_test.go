package extbridge

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

// TestNothingReachesTunnels: what comes from the router gets the host's address, but not to the port of hosts'
// tunnels, whole or in fragments, as a question or as an answer to a client that has that port.
func TestNothingReachesTunnels(t *testing.T) {
	w := newWorld(t, false)
	w.entries = append(w.entries, Entry{Addr: virtual4, Protocol: "udp", Port: contract.TunnelPort},
		Entry{Addr: virtual6, Protocol: "udp", Port: contract.TunnelPort})
	w.install()
	w.plugGateway()
	w.install()
	// ask says something from a port to another one, again and again, and returns an error where no answer comes.
	ask := func(from namespace, local, remote string, length int) error {
		conn, err := dial(from, "udp", local, remote, brief)
		if err != nil {
			return err
		}
		defer conn.Close()
		for range 3 {
			if _, err = conn.Write([]byte(strings.Repeat("x", length))); err != nil {
				continue // what was said of the one before
			}
			_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // sockets have deadlines
			if _, err = conn.Read(make([]byte, 65536)); err == nil {
				return nil
			}
		}
		return err
	}
	for _, f := range []struct {
		host, outside, virtual netip.Addr
		client                 string // another address outside
	}{{host4, outside4, virtual4, "172.31.0.253/24"}, {host6, outside6, virtual6, "fd00:172:31::253/64"}} {
		client := netip.MustParsePrefix(f.client).Addr()
		w.run(w.outside, append([]string{"ip", "addr", "add", f.client, "dev", "eth0"},
			map[bool][]string{false: {"nodad"}}[client.Is4()]...)...)
		for _, port := range []uint16{contract.TunnelPort, contract.TunnelPort + 1} {
			w.serveUDP(w.outside, on(f.outside, port), "outside")
			w.serveUDP("", on(f.host, port), "host")
		}
		for _, port := range []uint16{nodePort, highPort} {
			w.serveUDP(w.gateway, on(f.host, port), "gateway")
		}
		w.serveUDP(w.gateway, on(f.virtual, contract.TunnelPort), "gateway")
		for _, way := range []struct {
			name string
			ask  func(port uint16, length int) error
			// fragments come to the host itself, which has no tunnels where the datapath does not put them together.
			fragments bool
		}{
			{"a pod to a host", func(port uint16, length int) error { return ask(w.pod, "", on(f.outside, port), length) },
				false},
			{"the router to a host", func(port uint16, length int) error {
				return ask(w.gateway, "", on(f.outside, port), length)
			}, false},
			{"a pod to its own host", func(port uint16, length int) error {
				return ask(w.pod, "", on(contract.OfFamily(contract.HostAliases, f.host), port), length)
			}, true},
			{"an answer to a host", func(port uint16, length int) error {
				return ask(w.outside, on(client, port), on(f.host, nodePort), length)
			}, false},
			{"an answer from a port of connections", func(port uint16, length int) error {
				return ask(w.outside, on(client, port), on(f.host, highPort), length)
			}, false},
		} {
			for _, length := range []int{10, 4000} {
				t.Run(fmt.Sprintf("%s by %v, %d bytes", way.name, f.host, length), func(t *testing.T) {
					nodetest.Eventually(t, 8*time.Second, func() error { return way.ask(contract.TunnelPort+1, length) })
					if err := way.ask(contract.TunnelPort, length); err == nil && (length == 10 || !way.fragments) {
						t.Error("the tunnels' port is reached")
					}
				})
			}
		}
		w.run(w.outside, "ip", "route", "replace", f.virtual.String(), "via", f.host.String())
		for _, length := range []int{10, 4000} { // an address that is no host's may have the port
			nodetest.Eventually(t, 8*time.Second, func() error {
				return ask(w.outside, "", on(f.virtual, contract.TunnelPort), length)
			})
		}
	}
}
