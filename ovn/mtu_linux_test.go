package ovn

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestTooLargeForATunnel: a client outside whose packets would not fit a tunnel to another node learns
// what does, whatever it came by.
func TestTooLargeForATunnel(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a")
	d.outside(nil, "192.0.2.1/32 via "+testGateway, "198.51.100.0/24 via "+testGateway, "2001:db8:1::/64 via "+
		testGateway6)
	s := d.service("log", "10.96.0.10", "fd00:10:96::a")
	s.Ports = []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}}
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30514}}
	s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	udp := []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 8080}}
	d.do(s, d.slice("log-4", "log", udp, ready("10.244.0.3", "n1")),
		d.slice("log-6", "log", udp, ready("fd00:10:244::3", "n1")))
	for _, local := range []bool{false, true} {
		changed := *s
		changed.ExternalLocal = local
		d.do(&changed)
		for _, to := range []string{testGateway + ":30514", testHost + ":30514", "198.51.100.2:514",
			"[" + testHost6 + "]:30514"} {
			var conn net.Conn
			var err error
			d.within("outside", func() { conn, err = net.Dial("udp", to) })
			if err != nil {
				t.Fatal(err)
			}
			d.learnsMTU(conn.(*net.UDPConn), to, 1442)
			conn.Close()
		}
		d.forgetMTU()
	}
}

// learnsMTU sends a datagram as large as the link allows until the client knows of a smaller one.
func (d *datapath) learnsMTU(conn *net.UDPConn, to string, want int) {
	d.t.Helper()
	level, discover, mtu, room := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU, 28
	if netip.MustParseAddrPort(to).Addr().Is6() {
		level, discover, mtu, room = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, 48
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		d.t.Fatal(err)
	}
	control := func(do func(fd int) error) error {
		var err error
		if outer := raw.Control(func(fd uintptr) { err = do(int(fd)) }); outer != nil {
			return outer
		}
		return err
	}
	if err := control(func(fd int) error {
		return unix.SetsockoptInt(fd, level, discover, unix.IP_PMTUDISC_DO)
	}); err != nil {
		d.t.Fatal(err)
	}
	nodetest.Eventually(d.t, 5*time.Second, func() error {
		if _, err := conn.Write(make([]byte, 1500-room)); err == nil {
			return fmt.Errorf("%s: 1500 bytes go out still", to)
		}
		var known int
		err := control(func(fd int) (err error) { known, err = unix.GetsockoptInt(fd, level, mtu); return err })
		if err == nil && (known > want || known < want-8) {
			err = fmt.Errorf("%s: the path takes %d bytes, want %d or a little less", to, known, want)
		}
		return err
	})
}

// forgetMTU has the clients outside know nothing of any path.
func (d *datapath) forgetMTU() {
	d.t.Helper()
	command := exec.Command("sh", "-ec", "ip -n outside route flush cache; ip -n outside -6 route flush cache")
	if output, err := command.CombinedOutput(); err != nil {
		d.t.Fatalf("%v\n%s", err, output)
	}
}
