package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nodetest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func TestReadingARealDatabase(t *testing.T) {
	database := ovsdbtest.OpenVSwitch(t)
	server := ovsdbtest.Server(t, database)
	reader := vswitchDatabase{server.Endpoint, local.Dial}
	ctx := limit(t)
	expect(t, checkOVSDatabase(ctx, Config{}, reader), "failed", "ovs-vsctl --no-wait init")

	client := ovsdbtest.Connect(t, database, server.Endpoint, ovsdb.Table{Model: &vswitch.OpenvSwitch{}})
	ids, err := libovsdb.NewOvsMap(map[string]string{"system-id": "l1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Transact(ctx, libovsdb.Operation{Op: libovsdb.OperationInsert, Table: vswitch.OpenvSwitchTable,
		Row: libovsdb.Row{"ovs_version": "3.5.0", "external_ids": ids}}); err != nil {
		t.Fatal(err)
	}
	found, err := reader.OpenVSwitch(ctx)
	if err != nil || found.Root == nil || found.Root.OVSVersion == nil || *found.Root.OVSVersion != "3.5.0" ||
		found.Root.ExternalIDs["system-id"] != "l1" {
		t.Errorf("%+v, %v", found, err)
	}
	server.Kill()
	expect(t, checkOVSDatabase(ctx, Config{}, reader), "failed", "start ovsdb-server")
}

// kubeconfig names a test server and its certificate.
func kubeconfig(t *testing.T, url string, certificate []byte) string {
	t.Helper()
	authority, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters": [{"name": "c", "cluster": {"server": "` + url + `", "certificate-authority-data": ` + string(authority) + `}}],
		"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAskingAnAPIServer(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"gitVersion": "v1.35.4"}`))
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	ctx := limit(t)
	api := apiServer{kubeconfig(t, server.URL, server.Certificate().Raw)}
	expect(t, checkAPIServer(ctx, api), "ok", "v1.35.4", server.URL)
	expect(t, checkClock(ctx, api), "ok")
	expect(t, checkNode(ctx, api, Config{NodeName: "l1"}), "failed", "no Node l1")
	if got := apiServerName(api.kubeconfig); got != server.URL {
		t.Errorf("its name is %q", got)
	}

	stranger := newAuthority(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	expect(t, checkAPIServer(ctx, apiServer{kubeconfig(t, server.URL, stranger.certificate.Raw)}), "failed",
		"another authority")
	server.Close()
	expect(t, checkAPIServer(ctx, api), "failed", "nothing listens on that port")
	expect(t, checkAPIServer(ctx, apiServer{"/nonexistent"}), "failed", "kubeconfig")
}

func TestAskingTheAgent(t *testing.T) {
	ready := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(r.URL.Path + ": text\n"))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{MetricsAddress: ":" + port} // all addresses, as a user may write it
	expect(t, checkAgent(limit(t), config, localAgent{config.MetricsAddress}), "ok")
	ready = false
	expect(t, checkAgent(limit(t), config, localAgent{address}), "failed", "/readyz: text")
	if !installed(limit(t), config, localAgent{address}) {
		t.Error("an agent that is not ready does not count as running")
	}
	server.Close()
	expect(t, checkAgent(limit(t), config, localAgent{address}), "warning", "does not run")
}

func TestSouthbound(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	look := func(config Config) []Finding {
		return checkSouthbound(limit(t), config, fakeFiles{}, fakeVswitch{found: &openVSwitch{}}, fakeControl{})
	}
	expect(t, look(Config{OVNSouthbound: "tcp:" + at(plain) + ",ssl:" + at(secure)}), "ok ok",
		"certificate is valid until")
	expect(t, look(Config{OVNSouthbound: "ssl:" + at(plain)}), "failed", "no TLS there")
	expect(t, look(Config{}), "unknown")
	expect(t, look(Config{Hosted: true, OVNSouthbound: "tcp:192.0.2.1:6642"}), "ok", "by the chassis host")
	plain.Close()
	expect(t, look(Config{OVNSouthbound: "tcp:" + at(plain)}), "failed", "nothing listens")
}

// TestSouthboundTakesTheNode: as a server of OVN's, or Weft's guard.
func TestSouthboundTakesTheNode(t *testing.T) {
	from, to := time.Now().Add(-time.Hour), time.Now().Add(100*24*time.Hour)
	servers, nodes := newAuthority(t, from, to), newAuthority(t, from, to)
	issue := func(by *authority) (certificate, key []byte) {
		der, private := sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to}, by)
		text, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
	}
	own, err := tls.X509KeyPair(issue(servers))
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AddCert(nodes.certificate)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go answer(listener, map[string]any{"echo": []any{}})
	config := Config{OVNSouthbound: "ssl:" + listener.Addr().String()}
	ovs := fakeVswitch{found: &openVSwitch{SSL: &vswitch.SSL{Certificate: "crt", PrivateKey: "key", CaCert: "ca"}}}
	with := func(by *authority, ca []byte) fakeFiles {
		certificate, key := issue(by)
		return fakeFiles{"crt": certificate, "key": key, "ca": ca}
	}
	expect(t, checkSouthbound(limit(t), config, with(nodes, servers.pem), ovs, fakeControl{}), "ok", "answers this node")
	// What ovn-controller is told by its command line counts, as with Weft's own units.
	told := fakeControl{"arguments": "unix:/run/openvswitch/db.sock --private-key=key --certificate=crt --ca-cert=ca"}
	expect(t, checkSouthbound(limit(t), config, with(nodes, servers.pem), fakeVswitch{found: &openVSwitch{}}, told), "ok",
		"answers this node")
	expect(t, checkSouthbound(limit(t), config, with(servers, servers.pem), ovs, fakeControl{}), "failed",
		"does not take this node's certificate")
	expect(t, checkSouthbound(limit(t), config, with(nodes, nodes.pem), ovs, fakeControl{}), "failed",
		"compare the CA files")
	expect(t, checkSouthbound(limit(t), config, fakeFiles{}, ovs, fakeControl{}), "ok", "its certificate is valid until")
}

// answer one JSON-RPC request of each connection, by its method.
func answer(listener net.Listener, results map[string]any) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		var request struct {
			ID     any
			Method string
		}
		if json.NewDecoder(conn).Decode(&request) == nil {
			reply := map[string]any{"id": request.ID, "result": nil, "error": "unknown command"}
			if result, known := results[request.Method]; known {
				reply["result"], reply["error"] = result, nil
			}
			_ = json.NewEncoder(conn).Encode(reply)
		}
		conn.Close()
	}
}

func TestAskingADaemon(t *testing.T) {
	folder := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(folder, "ovn-controller.123.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go answer(listener, map[string]any{"connection-status": "connected\n"})
	// A daemon that died has left a socket behind; it is the newer one.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "ovn-controller.456.ctl"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	expect(t, checkOVNController(limit(t), linuxHost{Config{OVNRunDir: folder}}), "ok", "connected")
	_, err = linuxHost{Config{OVNRunDir: t.TempDir()}}.Control(limit(t), "ovn-controller", "version")
	if !errors.Is(err, errAbsent) {
		t.Error(err)
	}
}

// TestWhereDaemonsTakeCommands: ovn-rundir says nothing of Open vSwitch's own daemon.
func TestWhereDaemonsTakeCommands(t *testing.T) {
	for _, c := range []struct{ database, rundir, daemon, want string }{
		{"unix:/run/openvswitch/db.sock", "", "ovn-controller", "/run/openvswitch /run/ovn"},
		{"unix:/run/openvswitch/db.sock", "/opt/ovn", "ovn-controller", "/opt/ovn"},
		{"unix:/run/openvswitch/db.sock", "/opt/ovn", "ovs-vswitchd", "/run/openvswitch"},
		{"tcp:127.0.0.1:6640", "", "ovs-vswitchd", "/var/run/ovn"},
	} {
		config := Config{OVSDatabase: c.database, OVNRunDir: c.rundir}
		if got := strings.Join(controlFolders(config, c.daemon), " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestThisMachine(t *testing.T) {
	host := linuxHost{}
	devices, err := host.Devices()
	if err != nil || len(devices) == 0 || devices[0].Name != "lo" || !devices[0].Loopback {
		t.Errorf("%+v, %v", devices, err)
	}
	free, total, err := host.FreeSpace(filepath.Join(t.TempDir(), "not", "yet", "there"))
	if err != nil || free == 0 || total < free {
		t.Errorf("%d of %d free, %v", free, total, err)
	}
	report := Run(limit(t), Config{Version: "v", NodeName: "l1"})
	if report.Result != Failed || report.OS != "linux" || len(report.Findings) < 20 {
		t.Errorf("%+v", report)
	}
}

// TestCommandLineOfOVNController is that of a real one.
func TestCommandLineOfOVNController(t *testing.T) {
	server := ovsdbtest.Server(t, ovsdbtest.OpenVSwitch(t))
	dir, err := os.MkdirTemp("", "ctl") // a socket's name is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	controller := exec.Command(ovsdbtest.Program(t, "ovn-controller"), server.Endpoint, "--certificate=/nowhere/l1.crt",
		"-p", "/nowhere/l1.key", "--ca-cert", "/nowhere/ca.crt",
		"-vconsole:off", "-vsyslog:off", "-vfile:off")
	controller.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVN_RUNDIR="+dir)
	if err := controller.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = controller.Process.Kill()
		_ = controller.Wait()
	}()
	host := linuxHost{Config{OVNRunDir: dir}}
	for ctx := limit(t); ; {
		own, ok, err := ovnPair(ctx, fakeVswitch{found: &openVSwitch{}}, host)
		if ok && own == (pair{OfPeers: true, Of: "ovn-controller's", CA: "/nowhere/ca.crt", Certificate: "/nowhere/l1.crt",
			Key: "/nowhere/l1.key"}) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%+v, %v, %v", own, ok, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	expect(t, checkCertificates(limit(t), Config{}, osFiles{}, fakeVswitch{found: &openVSwitch{}}, host), "failed",
		"/nowhere/l1.crt")
	if _, err := (linuxHost{Config{OVNRunDir: t.TempDir()}}).Arguments(limit(t), "ovn-controller"); !errors.Is(err,
		errAbsent) {
		t.Errorf("where none runs: %v", err)
	}
}

// TestFamilies: every kernel has the family that lists the families.
func TestFamilies(t *testing.T) {
	names, err := linuxHost{}.Families()
	if err != nil || !slices.Contains(names, "nlctrl") {
		t.Errorf("%v %v", names, err)
	}
}
