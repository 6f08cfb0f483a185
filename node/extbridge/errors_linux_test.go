package extbridge

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// An error says no port that a flow could match, and still finds who sent the packet: the host, a pod, or who
// answers at an entry.
func TestErrorsFindTheirConnections(t *testing.T) {
	for name, own := range map[string]bool{"shared address": false, "own address": true} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, own)
			w.serveUDP(w.outside, ":53", "outside")
			servers := map[string][2]netip.Addr{"IPv4": {host4, outside4}, "IPv6": {host6, outside6}}
			for family, at := range servers {
				w.serveUDP(w.gateway, on(at[0], nodePort), "gateway")
				w.serveUDP(w.gateway, on(at[0], highPort), "gateway")
				mtu := 1500
				for _, test := range []struct {
					name   string
					sender namespace
					port   uint16 // of an entry; zero: the sender asks
				}{{"the host's question", "", 0}, {"an entry's answer", w.gateway, nodePort},
					{"a tracked entry's answer", w.gateway, highPort}, {"a pod's question", w.pod, 0}} {
					if test.sender == w.pod && (own || family == "IPv6") {
						continue // the world's router translates nothing; Open vSwitch's userspace datapath no errors of IPv6's
					}
					mtu -= 20 // each sees its own
					local, remote := netip.AddrPortFrom(at[0], test.port), netip.AddrPortFrom(at[1], 53)
					if test.port == 0 {
						w.ask(test.sender, "udp", remote.String())
						conn, err := dial(test.sender, "udp", "", remote.String(), brief)
						if err != nil {
							t.Fatal(err)
						}
						defer conn.Close()
						nodetest.Eventually(t, 5*time.Second, func() error {
							got, err := say(conn, "hello", brief)
							local = got.client
							return err
						})
					} else {
						remote = w.ask(w.outside, "udp", local.String()).client
					}
					nodetest.Eventually(t, 5*time.Second, func() error {
						if err := w.tooLarge(local, remote, mtu); err != nil {
							return err
						}
						return w.learned(test.sender, remote.Addr(), mtu)
					})
					t.Logf("%s: %s", family, test.name)
				}
			}
		})
	}
}

// learned says whether somebody's way to an address takes only such packets.
func (w *world) learned(ns namespace, to netip.Addr, mtu int) error {
	command := []string{"ip", "route", "get", to.String()}
	if ns != "" {
		command = append([]string{"nsenter", "--net=" + string(ns)}, command...)
	}
	output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err == nil && !strings.Contains(string(output), fmt.Sprintf("mtu %d", mtu)) {
		err = fmt.Errorf("no MTU %d: %s", mtu, output)
	}
	return err
}

// tooLarge has the outside say that a datagram was.
func (w *world) tooLarge(source, destination netip.AddrPort, mtu int) error {
	four := source.Addr().Is4()
	network, message := "ip6:ipv6-icmp", []byte{2, 0, 0, 0} // the kernel makes the checksum
	if four {
		network, message = "ip4:icmp", []byte{3, 4, 0, 0}
	}
	message = binary.BigEndian.AppendUint32(message, uint32(mtu))
	addresses := append(source.Addr().AsSlice(), destination.Addr().AsSlice()...)
	if four {
		header := append([]byte{0x45, 0, 5, 220, 0, 1, 0x40, 0, 63, 17, 0, 0}, addresses...)
		binary.BigEndian.PutUint16(header[10:], checksum(header))
		message = append(message, header...)
	} else {
		message = append(append(message, 0x60, 0, 0, 0, 5, 180, 17, 63), addresses...)
	}
	for _, n := range []uint16{source.Port(), destination.Port(), 1460, 1} {
		message = binary.BigEndian.AppendUint16(message, n)
	}
	if four {
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	conn, err := within(w.outside, func() (net.Conn, error) { return net.Dial(network, source.Addr().String()) })
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write(message)
	return err
}

// checksum is the Internet's, of an even number of bytes.
func checksum(data []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
