package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/freeport"
)

// TestSystemdIsToldOfTheStart: the agent has started before it has spoken to an API server, which may be away.
func TestSystemdIsToldOfTheStart(t *testing.T) {
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	systemd, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", address.Name)
	c := validConfig()
	c.Kubeconfig = filepath.Join(t.TempDir(), "missing")
	if err := Run(t.Context(), c); err == nil {
		t.Error("an agent without credentials runs")
	}
	if err := systemd.SetReadDeadline(time.Now().Add(nodetest.Patience)); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 100)
	n, err := systemd.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		t.Errorf("systemd hears %q, %v", message[:n], err)
	}
}

// TestAnAgentTellsWhatItsStartWaitsFor: while Open vSwitch's database is away, a restart would not help.
func TestAnAgentTellsWhatItsStartWaitsFor(t *testing.T) {
	c := validConfig()
	c.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	access := clientcmdapi.NewConfig()
	access.Clusters["lab"] = &clientcmdapi.Cluster{Server: "http://" + freeport.Address(t)}
	access.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab"}
	access.CurrentContext = "lab"
	if err := clientcmd.WriteToFile(*access, c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.OVSDatabase = "unix:" + filepath.Join(t.TempDir(), "db.sock")
	c.MetricsAddress = freeport.Address(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c) }()
	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"/healthz": {http.StatusOK, "ok"},
		"/readyz":  {http.StatusServiceUnavailable, c.OVSDatabase + " has not answered yet"},
		"/metrics": {http.StatusOK, "\nweft_node_ready 0\n"},
	} {
		nodetest.Eventually(t, 10*time.Second, func() error {
			response, err := http.Get("http://" + c.MetricsAddress + path)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			said, err := io.ReadAll(response.Body)
			if response.StatusCode != want.status || !strings.Contains(string(said), want.says) {
				return fmt.Errorf("%s answers %s, %q, %w; want %q", path, response.Status, said, err, want.says)
			}
			return nil
		})
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestToolsWaitForTheHostsAddress: an agent does not end because the host lacks metrics-address. It may be the one that
// gives the host its addresses back. What waiting does not heal ends it.
func TestToolsWaitForTheHostsAddress(t *testing.T) {
	c := validConfig()
	c.MetricsAddress = "198.51.100.77:9471"
	tools, err := serveWeb(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer tools.close()
	address := func(verb string) {
		t.Helper()
		if text, err := exec.Command("ip", "addr", verb, "198.51.100.77/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	address("add")
	defer address("del")
	nodetest.Eventually(t, 10*time.Second, func() error {
		response, err := http.Get("http://" + c.MetricsAddress + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err
	})
	if _, err := serveWeb(t.Context(), c); err == nil || !strings.Contains(err.Error(), "metrics-address") {
		t.Errorf("an address that is taken: %v", err)
	}
}
