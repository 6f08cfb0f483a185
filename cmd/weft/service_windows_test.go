package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/weftnet/weft/node/nodetest"
)

// TestMain lets the test's own program be the service.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "node" && os.Args[2] == "--service" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`

// A service is installed twice, runs, writes its log, ends when it is told to, and is removed. On Windows
// this would be the machine's own service, so it is for Wine alone.
func TestServiceLives(t *testing.T) {
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil {
		t.Skip("installs a service")
	}
	state := nodetest.Folder(t)
	credentials := filepath.Join(state, "kube config.json")
	if err := os.WriteFile(credentials, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(goodNode+" --gateway=none --cni-socket-prime --ovs-database=tcp:127.0.0.1:1 "+
		"--ovs-openflow=tcp:127.0.0.1:2 --metrics-address=:19471"),
		"--kubeconfig="+credentials, "--state-dir="+state)
	for range 2 {
		if err := installService(args, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := withService(uninstallService); err != nil {
			t.Error(err)
		}
		if err := withService(startService); err == nil || !strings.Contains(err.Error(), "not installed") {
			t.Errorf("removed and started: %v", err)
		}
	})
	if err := withService(func(s *mgr.Service) error {
		actions, err := s.RecoveryActions()
		// Wine only sets them
		if known(err) != nil || err == nil && (len(actions) != len(recovery) || actions[0] != recovery[0]) {
			t.Errorf("recovery actions %v, %v", actions, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := withService(startService); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(state, "weft-node.log")
	for deadline := time.Now().Add(nodetest.Patience); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(log) // there may be none yet
		if strings.Contains(string(text), "no Host Networking Service") {
			t.Fatalf("the Wine prefix has no emulated HNS: make it by test/lab/scripts/wine.sh; the log is %q", text)
		}
		if strings.Contains(string(text), "waiting for a database server") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log is %q", text)
		}
	}
	if err := withService(func(s *mgr.Service) error {
		address, err := readinessAddress(s)
		if address != "127.0.0.1:19471" {
			t.Errorf("the agent is asked at %q", address)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := withService(func(s *mgr.Service) error { return awaitReady(t.Context(), s, time.Second) }); err == nil ||
		!strings.Contains(err.Error(), "not ready after 1s: ovs-database: tcp:127.0.0.1:1 has not answered yet") {
		t.Errorf("an agent without Open vSwitch is ready: %v", err)
	}
	if err := withService(stopService); err != nil {
		t.Fatal(err)
	}
	if err := withService(func(s *mgr.Service) error { return awaitReady(t.Context(), s, time.Second) }); err == nil ||
		!strings.Contains(err.Error(), "has ended") {
		t.Errorf("a stopped service is ready: %v", err)
	}
	if err := withService(func(s *mgr.Service) error { return serviceStatus(serviceCommand(), s) }); err == nil {
		t.Error("a stopped service is said to run")
	}
}
