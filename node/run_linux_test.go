package node

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
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
