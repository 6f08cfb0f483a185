//go:build ansible

package windows

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// start is what a play says to the agent.
const start = "weft service start --ready 300s"

// adopt has the machine run an Open vSwitch that the roles have not installed, and use it as it is.
func (b *bench) adopt(m *machine) {
	maps.Copy(b.hosts[m.name], map[string]any{"weft_windows_ovs_package": "", "weft_windows_ovs_checksum": ""})
	m.driver = true
	for _, name := range []string{"ovsdb-server", "ovs-vswitchd"} {
		m.services[name] = &service{Path: "its own", Start: "auto", Recovery: make([]map[string]any, 1), Running: true}
	}
}

// install has the hosts of these names installed without an error.
func (b *bench) install(names ...string) {
	b.Helper()
	b.take(names...)
	result := b.play("windows.yml", withSerial...)
	for _, name := range names {
		b.succeeded(result, name)
		b.machines[name].changes()
	}
}

// TestAgentIsNotStartedOnWhatTheDoctorFails: what a role would have to mend stops the play where no role mends it, and
// before the agent is started where a role has not.
func TestAgentIsNotStartedOnWhatTheDoctorFails(t *testing.T) {
	b := newBench(t)
	for _, check := range []string{"ovs-version", "ovs-driver", "driver-signature", "test-signing"} {
		own := b.host("own-"+check, nil)
		b.adopt(own)
		own.unfit[check] = "install Open vSwitch 3.7"
	}
	b.host("placed", nil).unfit["ovs-version"] = "install Open vSwitch 3.7"
	b.take()
	result := b.play("windows.yml", withSerial...)
	for name, m := range b.machines {
		if own := name != "placed"; own {
			b.refused(result, name, "it is not well; install Open vSwitch 3.7", "")
			continue
		}
		if story := m.changes(); !strings.Contains(story, "service ovs-vswitchd:") || strings.Contains(story, start) ||
			!strings.Contains(result.failure(name), "ovs-version: it is not well; install Open vSwitch 3.7") {
			t.Errorf("%s: %s\n%s", name, result.failure(name), story)
		}
	}
	b.machines["placed"].unfit = map[string]string{}
	b.take("placed")
	b.succeeded(b.play("windows.yml"), "placed")
}

// TestConfigurationOfABrokenPlayIsTakenUp: the agent has the keys that are in its file, whichever run wrote them.
func TestConfigurationOfABrokenPlayIsTakenUp(t *testing.T) {
	b := newBench(t)
	m := b.host("h1", nil)
	b.install("h1")
	trust := filepath.Join(b.folder, "pki/tunnel/trust.crt")
	whole, err := os.ReadFile(trust)
	check(t, err)
	check(t, os.Remove(trust))
	b.hosts["h1"]["weft_gateway"] = "shared"
	b.take()
	if failure := b.play("windows.yml").failure("h1"); failure == "" || strings.Contains(m.config, "shared") {
		t.Fatalf("the play was to fail at its certificates: %q, and the agent has\n%s", failure, m.config)
	}
	m.changes()
	check(t, os.WriteFile(trust, whole, 0o600))
	b.succeeded(b.play("windows.yml"), "h1")
	if story := m.changes(); !strings.Contains(m.config, `"gateway": "shared"`) {
		t.Errorf("the agent has\n%s\nafter\n%s", m.config, story)
	}
	again := b.play("windows.yml")
	b.succeeded(again, "h1")
	if story := m.changes(); story != "" || len(again.changed("h1")) > 0 {
		t.Errorf("a third run changed %v\n%s", again.changed("h1"), story)
	}
}

// TestSlowReleaseIsWaitedFor: HNS, Open vSwitch and Windows may each let the release wait, for some 400 s together.
func TestSlowReleaseIsWaitedFor(t *testing.T) {
	b := newBench(t)
	m := b.host("h1", nil)
	b.install("h1")
	m.releaseTime = 420
	b.succeeded(b.play("uninstall.yml"), "h1")
	b.clean(t, m, false)
}
