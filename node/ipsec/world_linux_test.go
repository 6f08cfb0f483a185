package ipsec

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

const charonProgram = "/usr/sbin/charon-systemd"

// world is some nodes on a network, each a namespace with a charon and a GENEVE device of its own.
type world struct {
	tb        testing.TB
	underlay  string // namespace of the bridge between them
	authority *authority
	nodes     []*node
	frames    frames
}

// node is one of them: 172.30.0.N on the underlay, 10.1.0.N in the tunnels; or fd00:30::N.
type node struct {
	*world
	number         int
	space, dir     string
	address, inner netip.Addr
	files          Files
	charon         *exec.Cmd
	config         Config
	stop           func()

	mu     sync.Mutex
	status Status
	err    error
}

// newWorld has a tunnel from each node to each other one.
func newWorld(tb testing.TB, number int, ipv6 bool) *world {
	tb.Helper()
	w := newUnderlay(tb, number, ipv6)
	for _, n := range w.nodes {
		for _, peer := range n.peers() {
			n.reach(peer)
		}
	}
	return w
}

// newUnderlay needs the kernel's own tunnels and XFRM, and strongSwan. Its nodes have no tunnels yet.
func newUnderlay(tb testing.TB, number int, ipv6 bool) *world {
	tb.Helper()
	if nodetest.Userspace() {
		tb.Skip("encryption is the kernel's: make test-kernel")
	}
	if _, err := os.Stat(charonProgram); err != nil {
		tb.Fatalf("%v: make test-kernel unpacks it", err)
	}
	w := &world{tb: tb, underlay: filepath.Base(nodetest.Sandbox(tb, "underlay")), authority: newAuthority(tb)}
	w.run("ip", "-n", w.underlay, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
	w.run("ip", "-n", w.underlay, "link", "set", "br0", "up")
	for i := 1; i <= number; i++ {
		w.nodes = append(w.nodes, w.newNode(i, ipv6))
	}
	w.frames.capture(tb, w.underlay)
	return w
}

func (w *world) run(command ...string) string {
	w.tb.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		w.tb.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

func (w *world) newNode(i int, ipv6 bool) *node {
	w.tb.Helper()
	name := fmt.Sprintf("n%d", i)
	n := &node{world: w, number: i, space: filepath.Base(nodetest.Sandbox(w.tb, name)), dir: w.tb.TempDir()}
	n.address, n.inner = netip.AddrFrom4([4]byte{172, 30, 0, byte(i)}), netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
	family := "-4"
	if ipv6 {
		family, n.address = "-6", netip.MustParseAddr(fmt.Sprintf("fd00:30::%d", i))
	}
	w.run("ip", "-n", w.underlay, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", n.space)
	w.run("ip", "-n", w.underlay, "link", "set", name, "master", "br0", "up")
	addresses := []string{"ip", "-n", n.space, family, "addr", "add", fmt.Sprintf("%v/24", n.address), "dev", "eth0"}
	if ipv6 {
		addresses = append(addresses, "nodad")
	}
	w.run(addresses...)
	for _, device := range []string{"lo", "eth0"} {
		w.run("ip", "-n", n.space, "link", "set", device, "up")
	}
	w.run("ip", "-n", n.space, "addr", "add", n.inner.String()+"/32", "dev", "lo")
	n.files = Files{filepath.Join(n.dir, "ca.crt"), filepath.Join(n.dir, "node.crt"), filepath.Join(n.dir, "node.key")}
	n.place(w.authority, w.authority)
	return n
}

func innerMAC(i int) string { return fmt.Sprintf("0a:58:0a:01:00:%02x", i) }

// reach has packets to a peer's inner address go by the tunnel.
func (n *node) reach(peer *node) {
	n.tb.Helper()
	device := fmt.Sprintf("gnv%d", peer.number)
	n.run("ip", "-n", n.space, "link", "add", device, "address", innerMAC(n.number), "mtu", "1400", "type", "geneve", "id",
		"7", "remote", peer.address.String())
	n.run("ip", "-n", n.space, "link", "set", device, "up")
	n.run("ip", "-n", n.space, "neigh", "add", peer.inner.String(), "lladdr", innerMAC(peer.number), "dev", device)
	n.run("ip", "-n", n.space, "route", "add", peer.inner.String()+"/32", "dev", device, "src", n.inner.String())
}

// place gives the node a certificate of an authority, and has it trust the others.
func (n *node) place(signer *authority, trusted ...*authority) {
	n.tb.Helper()
	n.placeFor(n.address, signer, trusted...)
}

func (n *node) placeFor(addr netip.Addr, signer *authority, trusted ...*authority) {
	n.tb.Helper()
	certificate, key := signer.sign(n.tb, addr.String())
	var trust []byte
	for _, a := range trusted {
		trust = append(trust, a.pem...)
	}
	for path, content := range map[string][]byte{n.files.CA: trust, n.files.Certificate: certificate,
		n.files.PrivateKey: key} {
		if err := os.WriteFile(path+".new", content, 0o600); err != nil {
			n.tb.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			n.tb.Fatal(err)
		}
	}
}

func (n *node) vici() string { return filepath.Join(n.dir, "vici") }

// The playbooks' file, and what keeps several charons on a machine apart.
const charonConf = `include %s
charon-systemd {
    load = random nonce openssl pem x509 pubkey pkcs1 pkcs8 revocation constraints hmac gcm kdf kernel-netlink socket-default vici
    plugins {
        vici {
            socket = unix://%s
        }
    }
    filelog {
        log {
            path = %s
            default = 1
            flush_line = yes
        }
    }
}
`

// startCharon in the node's namespace.
func (n *node) startCharon() {
	n.tb.Helper()
	shipped, err := filepath.Abs("../../ansible/roles/weft_node_linux/files/strongswan.conf")
	if err != nil {
		n.tb.Fatal(err)
	}
	conf, log := filepath.Join(n.dir, "strongswan.conf"), filepath.Join(n.dir, "charon.log")
	if err := os.WriteFile(conf, fmt.Appendf(nil, charonConf, shipped, n.vici(), log), 0o600); err != nil {
		n.tb.Fatal(err)
	}
	n.charon = exec.Command("ip", "netns", "exec", n.space, charonProgram)
	n.charon.Env = append(os.Environ(), "STRONGSWAN_CONF="+conf)
	n.charon.Stderr = os.Stderr
	if err := n.charon.Start(); err != nil {
		n.tb.Fatal(err)
	}
	nodetest.Eventually(n.tb, 10*time.Second, func() error {
		conn, err := net.Dial("unix", n.vici())
		if err == nil {
			conn.Close()
		}
		return err
	})
	charon := n.charon
	n.tb.Cleanup(func() {
		_ = charon.Process.Kill()
		_ = charon.Wait()
		if n.tb.Failed() {
			text, _ := os.ReadFile(log)
			n.tb.Logf("charon of node %d:\n%s", n.number, text)
		}
	})
}

// killCharon as a crash does.
func (n *node) killCharon() {
	n.tb.Helper()
	if err := n.charon.Process.Kill(); err != nil {
		n.tb.Fatal(err)
	}
	_ = n.charon.Wait()
	_ = os.Remove(n.vici())
}

// keep runs a keeper of a mode in place of the one that runs, as another start of the agent does.
func (n *node) keep(mode Mode, peers ...*node) {
	n.tb.Helper()
	if n.stop != nil {
		n.stop()
	}
	n.config.Mode, n.config.Address, n.config.Charon, n.config.Files = mode, n.address, n.vici(), n.files
	ns, err := netns.GetFromName(n.space)
	if err != nil {
		n.tb.Fatal(err)
	}
	keeper, err := New(n.config, ns)
	ns.Close()
	if err != nil {
		n.tb.Fatal(err)
	}
	var addrs []netip.Addr
	for _, p := range peers {
		addrs = append(addrs, p.address)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		keeper.Run(ctx, func(ctx context.Context) {
			status, err := keeper.Keep(ctx, addrs)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.status, n.err = status, err
		})
	})
	n.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		keeper.Close()
	})
	n.tb.Cleanup(n.stop)
	n.mu.Lock()
	n.status, n.err = Status{}, fmt.Errorf("not looked yet")
	n.mu.Unlock()
}

func (n *node) peers() []*node {
	var others []*node
	for _, p := range n.nodes {
		if p != n {
			others = append(others, p)
		}
	}
	return others
}

// encrypted is nil when the node sends by ESP to so many peers.
func (n *node) encrypted(peers int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return fmt.Errorf("node %d: %w", n.number, n.err)
	}
	if n.status.Encrypted != peers {
		return fmt.Errorf("node %d sends by ESP to %d peers, without to %v", n.number, n.status.Encrypted, n.status.Missing)
	}
	return nil
}

func (w *world) awaitEncrypted() {
	w.tb.Helper()
	for _, n := range w.nodes {
		nodetest.Eventually(w.tb, 15*time.Second, func() error { return n.encrypted(len(w.nodes) - 1) })
	}
}

// inside calls f in a namespace.
func inside(tb testing.TB, space string, f func() error) {
	tb.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never given back
		ns, err := netns.GetFromName(space)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
}

func (n *node) listen(local string) net.PacketConn {
	var conn net.PacketConn
	inside(n.tb, n.space, func() (err error) {
		conn, err = net.ListenPacket("udp", local)
		if err != nil {
			return err
		}
		raw, err := conn.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		// A reader that has no processor for a while loses nothing.
		forced := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		})
		return errors.Join(err, forced)
	})
	n.tb.Cleanup(func() { conn.Close() })
	return conn
}

// planted is in every packet of a stream.
var planted = []byte("a text that nobody outside may read")

// stream sends from one node to another, a packet each so often, until it is ended.
type stream struct {
	from, to *node
	end      func()
	sent     int64
	received atomic.Int64
	latest   atomic.Int64 // the number of the latest that has come
}

const streamPort = "7000"

func (w *world) startStreams(every time.Duration) []*stream {
	w.tb.Helper()
	var all []*stream
	for _, to := range w.nodes {
		receiver := to.listen(net.JoinHostPort(to.inner.String(), streamPort))
		by := map[netip.Addr]*stream{}
		for _, from := range to.peers() {
			s := &stream{from: from, to: to}
			by[from.inner] = s
			all = append(all, s)
		}
		go func() {
			buffer := make([]byte, 2048)
			for {
				length, from, err := receiver.ReadFrom(buffer)
				if err != nil {
					return
				}
				s := by[from.(*net.UDPAddr).AddrPort().Addr().Unmap()]
				if s == nil {
					continue
				}
				var number int64
				fmt.Sscan(string(buffer[len(planted):length]), &number)
				s.received.Add(1)
				s.latest.Store(number)
			}
		}()
	}
	for _, s := range all {
		s.start(every)
	}
	return all
}

func (s *stream) start(every time.Duration) {
	conn := s.from.listen(s.from.inner.String() + ":0")
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.to.inner, 7000))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			s.sent++
			_, _ = conn.WriteTo(fmt.Appendf(bytes.Clone(planted), " %d", s.sent), to) // one that policies refuse is lost as well
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	s.end = sync.OnceFunc(func() { close(stop); <-stopped })
	s.from.tb.Cleanup(s.end)
}

// lost ends the streams and says what of them has not come.
func lost(tb testing.TB, streams []*stream) (missing, sent int64) {
	tb.Helper()
	for _, s := range streams {
		s.end()
		last := s.sent
		nodetest.Eventually(tb, 2*time.Second, func() error {
			if s.latest.Load() < last {
				return fmt.Errorf("node %d has not had the last packet of node %d", s.to.number, s.from.number)
			}
			return nil
		})
		if n := last - s.received.Load(); n > 0 {
			tb.Logf("node %d to node %d: %d of %d packets lost", s.from.number, s.to.number, n, last)
			missing += n
		}
		sent += last
	}
	return missing, sent
}

// frames counts what is on the underlay.
type frames struct{ clear, esp, planted atomic.Int64 }

func (f *frames) reset() {
	f.clear.Store(0)
	f.esp.Store(0)
	f.planted.Store(0)
}

// capture sees what all nodes send to the bridge.
func (f *frames) capture(tb testing.TB, space string) {
	tb.Helper()
	var file *os.File
	inside(tb, space, func() error {
		// ETH_P_ALL in network order
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0x0300)
		if err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		file = os.NewFile(uintptr(fd), "underlay")
		return nil
	})
	tb.Cleanup(func() { file.Close() })
	go func() {
		buffer := make([]byte, 65536)
		for {
			n, err := file.Read(buffer)
			if err != nil {
				return
			}
			f.count(buffer[:n])
		}
	}()
}

func (f *frames) count(frame []byte) {
	if len(frame) < 14+40 {
		return
	}
	protocol, payload := frame[14+9], frame[14+20:]
	if frame[12] == 0x86 {
		protocol, payload = frame[14+6], frame[14+40:]
	}
	switch {
	case protocol == unix.IPPROTO_ESP:
		f.esp.Add(1)
	case protocol == unix.IPPROTO_UDP && len(payload) > 4 && int(payload[2])<<8|int(payload[3]) == 6081:
		f.clear.Add(1)
	}
	if bytes.Contains(frame, planted) {
		f.planted.Add(1)
	}
}

// authority signs nodes' certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
	serial      int64
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: fmt.Sprint("weft ipsec ", time.Now().UnixNano())},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign writes the name as the playbooks' authority does, in UTF-8.
func (a *authority) sign(tb testing.TB, name string) (certificate, key []byte) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	value := asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(name)}
	subject, err := asn1.Marshal(pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: value}}})
	if err != nil {
		tb.Fatal(err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), RawSubject: subject, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// watchESP looks at so many frames of ESP, and returns an error if there was something in the clear among them.
func (w *world) watchESP(number int64) error {
	deadline := time.After(nodetest.Patience)
	for w.frames.esp.Load() < number {
		select {
		case <-time.After(pace):
		case <-deadline:
			return fmt.Errorf("%d frames of ESP in %v", w.frames.esp.Load(), nodetest.Patience)
		}
	}
	if clear, text := w.frames.clear.Load(), w.frames.planted.Load(); clear+text > 0 {
		return fmt.Errorf("beside %d frames of ESP, %d of GENEVE, %d with the text", number, clear, text)
	}
	return nil
}
