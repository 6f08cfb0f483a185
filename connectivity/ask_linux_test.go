package connectivity

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/freeport"
)

// netexec runs the real one, as pods do, and gives its port, which is the same for HTTP and UDP.
func netexec(t *testing.T) (port int) {
	t.Helper()
	dir := os.Getenv("WEFT_LAB_BIN")
	if dir == "" {
		dir = filepath.Join(ovsdbtest.Repository(), "bin/lab")
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	agnhost := filepath.Join(dir, "agnhost")
	if _, err := os.Stat(agnhost); err != nil { // has go's cache of results know of it, too
		t.Fatalf("%v: run make lab", err)
	}
	cmd := exec.Command(agnhost, "netexec", fmt.Sprintf("--http-port=%d", port),
		fmt.Sprintf("--udp-port=%d", port))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run make lab", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	nodetest.Eventually(t, nodetest.Patience, func() error {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", port))
		if err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("it is not healthy: %s", response.Status)
			}
		}
		return err
	})
	return port
}

// proxied is an API server that reaches one pod alone, client-0 of the namespace test.
func proxied(t *testing.T, port int) Proxy {
	t.Helper()
	target, err := url.Parse(fmt.Sprintf("http://127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	forward := http.StripPrefix(fmt.Sprintf("/api/v1/namespaces/test/pods/client-0:%d/proxy", port),
		httputil.NewSingleHostReverseProxy(target))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/client-0:") {
			forward.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "ServiceUnavailable", "code": 503,
			"message": "error trying to reach service: dial tcp 10.244.0.3:8080: i/o timeout"}`)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return Proxy{Client: client.CoreV1().RESTClient()}
}

// TestNetexecAnswers what the plan asks: the real one, with its own words for what has failed.
func TestNetexecAnswers(t *testing.T) {
	port := netexec(t)
	proxy := proxied(t, port)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	closed := freeport.Number(t)
	s := newScene(Options{}, 1, "l1")
	large := s.largePackets(pair{family: corev1.IPv4Protocol})
	here := func(d Dial) Dial {
		d.Host, d.Port = "127.0.0.1", port
		d.Request = strings.Replace(d.Request, "port="+strconv.Itoa(httpPort), "port="+strconv.Itoa(port), 1)
		return d
	}
	for _, c := range []struct {
		name string
		dial Dial
		want want
		err  string
	}{
		{"by TCP", here(Dial{Protocol: corev1.ProtocolTCP, Request: "hostname"}), want{hosts: []string{name}}, ""},
		{"by UDP", here(Dial{Protocol: corev1.ProtocolUDP, Request: "hostname"}), want{hosts: []string{name}}, ""},
		{"by a name", Dial{Host: "localhost", Port: port, Protocol: corev1.ProtocolTCP, Request: "hostname"},
			want{hosts: []string{name}}, ""},
		{"with much", here(large[0].dial), large[0].want, ""},
		{"with a large datagram", here(large[1].dial), large[1].want, ""},
		{"to anybody outside", here(Dial{Protocol: corev1.ProtocolTCP, Request: "/"}), want{}, ""},
		{"what nobody serves", Dial{Host: "127.0.0.1", Port: int(closed),
			Protocol: corev1.ProtocolTCP, Request: "hostname"}, want{}, "connection refused"},
		{"by a name that nobody has", Dial{Host: "nobody.invalid", Port: port, Protocol: corev1.ProtocolTCP,
			Request: "hostname"}, want{}, "lookup nobody.invalid"},
	} {
		reply, err := proxy.Ask(t.Context(), "test", "client-0", port, c.dial)
		if err != nil {
			t.Errorf("%s: the pod is not asked: %v", c.name, err)
			continue
		}
		if err := c.want.judge(reply); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
	if _, err := proxy.Ask(t.Context(), "test", "client-1", port, here(Dial{Request: "hostname"})); err == nil ||
		!strings.Contains(err.Error(), "error trying to reach service: dial tcp 10.244.0.3:8080: i/o timeout") {
		t.Errorf("a pod that the API server does not reach: %v", err)
	}
}
