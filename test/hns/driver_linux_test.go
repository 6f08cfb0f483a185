package hns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftnet/weft/test/netdev"
)

// driverControl is the control socket of a driver that keeps what it is told.
type driverControl struct {
	mu    sync.Mutex
	words []string
}

func (d *driverControl) Control(words []string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.words = append(d.words, strings.Join(words, " "))
	return "", nil
}

func (d *driverControl) told() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.words[max(0, len(d.words)-2):])
}

func TestTheDriverIsToldHowTheSwitchIs(t *testing.T) {
	dir := t.TempDir()
	emulator := ExtensionEmulator{Control: filepath.Join(dir, "control.sock"), File: filepath.Join(dir, "switch.json")}
	if state, err := ReadSwitchState(emulator.File); err != nil || state != (SwitchState{VMMS: true}) {
		t.Errorf("before HNS has started the switch is %+v, %v", state, err)
	}
	// The driver starts after HNS, which is no error.
	s, err := New(Config{Driver: emulator})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", emulator.Control)
	if err != nil {
		t.Fatal(err)
	}
	driver := &driverControl{}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- ServeControl(ctx, listener, driver) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	expect := func(when string, want SwitchState) {
		t.Helper()
		words := []string{"vmms " + onOff(want.VMMS), "extension " + onOff(want.Extension)}
		if told := driver.told(); !slices.Equal(told, words) {
			t.Errorf("%s the driver was told %q and not %q", when, told, words)
		}
		if state, err := ReadSwitchState(emulator.File); err != nil || state != want {
			t.Errorf("%s the file says %+v, %v and not %+v", when, state, err, want)
		}
	}
	id := must(t, s, "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet"))
	expect("with the network", SwitchState{VMMS: true})
	v1(t, s, "POST", "/networks/"+id, `{"Extensions":[{"Id":"`+OVSExtension+`","IsEnabled":true}]}`)
	expect("once the extension is enabled", SwitchState{Extension: true, VMMS: true})
	control(t, s, "fault", "no-vmms")
	expect("without Hyper-V's management", SwitchState{Extension: true})
	control(t, s, "fault", "clear")
	expect("with it again", SwitchState{Extension: true, VMMS: true})
	control(t, s, "fault", "disable-extension")
	expect("once the extension is disabled", SwitchState{VMMS: true})
	v1(t, s, "POST", "/networks/"+id, `{"Extensions":[{"Id":"`+OVSExtension+`","IsEnabled":true}]}`)
	must(t, s, "HcnDeleteNetwork", id, 0, "")
	expect("without the network", SwitchState{VMMS: true})

	if err := os.WriteFile(emulator.File, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSwitchState(emulator.File); err == nil {
		t.Error("a file that says nothing is read")
	}
}

// What ovs-vswitchd deletes by WMI, HNS does not make again: not at a change of another device, nor at the next call.
func TestADeletedVNICStaysAway(t *testing.T) {
	m := newMachine(t)
	m.plane.mu.Lock()
	m.plane.WMI = true
	m.plane.mu.Unlock()
	id := m.network()
	gone, other := m.pod(id), m.pod(id)
	for _, p := range []pod{gone, other} {
		control(t, m.service, "start", p.namespace)
	}
	m.ip("link", "del", gone.name)
	m.ip("link", "del", bridge)
	m.eventually(func() error {
		if gone.eth0(t) != 0 {
			return errors.New("the pod has its interface still")
		}
		return nil
	})
	third := m.pod(id)
	control(t, m.service, "start", third.namespace)
	for _, device := range []string{gone.name, bridge} {
		if m.exists(device) {
			t.Errorf("%s is there again", device)
		}
	}
	for _, p := range []pod{other, third} {
		if !m.exists(p.name) || p.eth0(t) == 0 {
			t.Errorf("%s has lost its vNIC, too", p.name)
		}
	}
	if err := m.has("Ethernet"); err != nil {
		t.Error(fmt.Errorf("nobody has the host's addresses: %w", err))
	}

	// A container that starts anew gets a vNIC, and a network that goes gives the adapter its addresses back.
	control(t, m.service, "stop", gone.namespace)
	control(t, m.service, "start", gone.namespace)
	if !m.exists(gone.name) || gone.eth0(t) == 0 {
		t.Error("the pod has no vNIC though its container has started again")
	}
	must(t, m.service, "HcnDeleteNetwork", id, 0, "")
	m.check(m.has("Ethernet", hostV4, hostV6))
	m.network()
	m.check(m.has(bridge, hostV4, hostV6))
}

// TestADeletedTapIsNotMadeAgain also where it is deleted between one look at it and the next, and where another one has
// its name by now.
func TestADeletedTapIsNotMadeAgain(t *testing.T) {
	m := newMachine(t)
	tap, isNew, err := ensureTap("tap", 0)
	m.check(err)
	if !isNew {
		t.Fatal("the tap was there before")
	}
	index := tap.Attrs().Index
	if _, isNew, err = ensureTap("tap", index); err != nil || isNew {
		t.Fatalf("a tap that is there: %v, new: %v", err, isNew)
	}
	m.ip("link", "del", "tap")
	for _, state := range []string{"gone", "another one"} {
		if _, _, err := ensureTap("tap", index); !errors.Is(err, errDeleted) {
			t.Errorf("a tap that is %s: %v", state, err)
		}
		_, _, err := ensureTap("tap", 0)
		m.check(err)
	}
}

// A switch without a forwarding extension forwards by itself: the host stays reachable. With it nobody else does, and
// the driver gets the host's vNIC.
func TestASwitchForwardsUntilItsExtensionDoes(t *testing.T) {
	m := newMachine(t)
	m.plane.mu.Lock()
	m.plane.WMI = true
	m.plane.mu.Unlock()
	reachable := func() error { return transfer(m.gateway, hostNamespace, "172.30.0.5") }
	id := m.unnamedNetwork()
	m.eventually(reachable)
	m.name()
	m.eventually(reachable)
	m.enableExtension(id)
	if err := reachable(); err == nil {
		t.Error("somebody forwards beside the extension")
	}
	m.eventually(func() error {
		vnic, err := netdev.OpenTap(bridge)
		if err != nil {
			return err
		}
		return vnic.Close()
	})
	control(t, m.service, "fault", "disable-extension")
	m.eventually(reachable)
	must(t, m.service, "HcnDeleteNetwork", id, 0, "")
	m.eventually(reachable)
}
