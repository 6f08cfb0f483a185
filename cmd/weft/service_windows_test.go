package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/weftnet/weft/node"
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
	started := func(s *mgr.Service) error { return startService(context.Background(), s) }
	stopped := func(s *mgr.Service) error { return stopService(context.Background(), s) }
	for range 2 {
		if err := installService(args, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := withService(func(s *mgr.Service) error { return uninstallService(context.Background(), s) }); err != nil {
			t.Error(err)
		}
		if err := withService(started); err == nil || !strings.Contains(err.Error(), "not installed") {
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
	if err := withService(started); err != nil {
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
	// It is not served yet, and may have work on the adapter to do.
	agent, err := checkArguments(args)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Release(t.Context(), agent); err == nil || !strings.Contains(err.Error(), "weft service status") {
		t.Errorf("an agent that waits for its database lets the adapter be released: %v", err)
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
	if err := withService(stopped); err != nil {
		t.Fatal(err)
	}
	if err := withService(func(s *mgr.Service) error {
		status, err := queryService(s)
		if status.Win32ExitCode != 0 || status.ServiceSpecificExitCode != 0 {
			t.Errorf("it was told to stop, and ends so that Windows starts it again: %+v", status)
		}
		return err
	}); err != nil {
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

// endingService answers as the service control manager does of a service that takes its time to start and to end.
type endingService struct {
	state   svc.State
	changes time.Time     // when it has started, or ended
	takes   time.Duration // to end
	stops   int
}

func (s *endingService) Query() (svc.Status, error) {
	if !time.Now().Before(s.changes) {
		switch s.state {
		case svc.StartPending:
			s.state = svc.Running
		case svc.StopPending:
			s.state = svc.Stopped
		}
	}
	return svc.Status{State: s.state}, nil
}

func (s *endingService) Start(...string) error {
	if s.state != svc.Stopped {
		return windows.ERROR_SERVICE_ALREADY_RUNNING
	}
	s.state, s.changes = svc.StartPending, time.Now().Add(time.Second)
	return nil
}

func (s *endingService) Control(svc.Cmd) (svc.Status, error) {
	switch s.state {
	case svc.Running:
		s.stops++
		s.state, s.changes = svc.StopPending, time.Now().Add(s.takes)
		return svc.Status{State: s.state}, nil
	case svc.Stopped:
		return svc.Status{}, windows.ERROR_SERVICE_NOT_ACTIVE
	}
	return svc.Status{}, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL
}

// A stop waits for an agent that ends its work, also for one that starts, or that somebody else has told to stop.
func TestStopWaitsForTheAgentsWork(t *testing.T) {
	for state, asked := range map[svc.State]int{svc.Running: 1, svc.StartPending: 1, svc.StopPending: 0, svc.Stopped: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := &endingService{state: state, changes: time.Now().Add(7 * time.Minute), takes: 7 * time.Minute}
			if state == svc.StartPending {
				s.changes = time.Now().Add(time.Second)
			}
			if err := stopService(t.Context(), s); err != nil || s.state != svc.Stopped || s.stops != asked {
				t.Errorf("%s: %v; it is %s, and was told %d times", stateNames[state], err, stateNames[s.state], s.stops)
			}
		})
	}
}

// A stop that is broken off, or that does not end, says in which state the service is left.
func TestStopThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &endingService{state: svc.Running, takes: time.Hour}
		if err := stopService(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is stopping after 10m0s") {
			t.Errorf("a stop of an hour: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := stopService(ctx, s); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 2*time.Second {
			t.Errorf("broken off after %v: %v", time.Since(begin), err)
		}
	})
}

// A service that is still ending is started when it has ended.
func TestStartWaitsForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &endingService{state: svc.StopPending, changes: time.Now().Add(time.Minute)}
		if err := startService(t.Context(), s); err != nil || s.state != svc.Running {
			t.Errorf("%v; it is %s", err, stateNames[s.state])
		}
	})
}
