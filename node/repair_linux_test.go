package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

// The node's database is lost while pods run: what is left of them is enough to attach them again.
func TestLostDatabase(t *testing.T) {
	c := newReadyCluster(t)
	a, b, gone := c.newPod("a", 3), c.newPod("b", 4), c.newPod("gone", 5)
	for _, p := range []*pod{a, b, gone} {
		c.allocate(p)
		c.mustAdd(p)
	}
	c.mustReach(a, b.address)
	c.stop()
	c.ovn.Kill(nodetest.OVSServer)
	nodetest.RemoveSandbox(t, filepath.Base(gone.sandbox))
	c.ovn.LoseOVSDatabase()
	c.startAgent()
	c.awaitReady()
	c.mustReach(a, b.address)
	c.mustReach(nil, a.address6)
	c.nothingLeft(gone)
	if err := c.del(a); err != nil {
		t.Error(err)
	}
	c.nothingLeft(a)
}

// The same while the agent runs on.
func TestLostDatabaseUnderTheAgent(t *testing.T) {
	c := newReadyCluster(t)
	a := c.newPod("a", 3)
	c.allocate(a)
	c.mustAdd(a)
	c.ovn.Kill(nodetest.OVSServer)
	c.ovn.LoseOVSDatabase()
	c.mustReach(nil, a.address)
	c.awaitReady()
	b := c.newPod("b", 4)
	c.allocate(b)
	c.mustAdd(b)
	c.mustReach(b, a.address)
}

func TestSettingsAreRepaired(t *testing.T) {
	c := newReadyCluster(t)
	c.ovn.VS("set", "Open_vSwitch", ".", "external_ids:mine=kept")
	for _, damage := range [][]string{
		{"remove", "Open_vSwitch", ".", "external_ids", "ovn-encap-ip"},
		{"set", "Open_vSwitch", ".", "external_ids:ovn-remote=tcp:192.0.2.1:1"},
		{"set", "Bridge", nodeconfig.IntegrationBridge, "other_config:disable-in-band=false"},
		{"del-port", platform.ManagementDevice},
		{"set", "Interface", platform.ManagementDevice, "external_ids:iface-id=other"},
		{"del-br", nodeconfig.IntegrationBridge},
	} {
		t.Run(strings.Join(damage, " "), func(t *testing.T) {
			c.ovn.VS(damage...)
			c.eventually(func() error {
				settings := c.ovn.VS("--bare", "--columns=external_ids", "list", "Open_vSwitch")
				for _, want := range []string{"ovn-encap-ip=172.30.0.1", "ovn-remote=" + c.ovn.Southbound(), "mine=kept",
					"system-id=" + testNode} {
					if !strings.Contains(settings, want) {
						return fmt.Errorf("no %s in %s", want, settings)
					}
				}
				bridge := c.ovn.VS("--if-exists", "get", "Bridge", nodeconfig.IntegrationBridge, "fail_mode",
					"other_config:disable-in-band")
				if bridge != "secure\n\"true\"" {
					return errors.New("bridge " + bridge)
				}
				if id := c.ovn.VS("--if-exists", "get", "Interface", platform.ManagementDevice,
					"external_ids:iface-id"); id != "mgmt-"+testNode {
					return errors.New("iface-id " + id)
				}
				return c.reaches(nil, contract.GatewayAddress(testSubnet))
			})
		})
	}
}

// What is removed and made again while a daemon looks away has the same name and the same UUID: the
// daemon must take it up all the same.
func TestRepairsAreTakenUpByBusyDaemons(t *testing.T) {
	c := newReadyCluster(t)
	for _, daemon := range []string{nodetest.Vswitchd, nodetest.OVNController} {
		for _, damage := range [][]string{
			{"del-port", platform.ManagementDevice},
			{"set", "Interface", platform.ManagementDevice, "external_ids:iface-id=other"},
			{"del-br", nodeconfig.IntegrationBridge},
		} {
			t.Run(daemon+" "+strings.Join(damage, " "), func(t *testing.T) {
				c.ovn.Pause(daemon)
				c.ovn.VS(append([]string{"--no-wait"}, damage...)...)
				c.eventually(func() error {
					device := c.ovn.VS("--bare", "--columns=external_ids", "find", "Interface", "name="+platform.ManagementDevice)
					if !strings.Contains(device, "iface-id=mgmt-"+testNode) {
						return errors.New("not repaired: " + device)
					}
					return nil
				})
				c.ovn.Resume(daemon)
				c.eventually(func() error { return c.reaches(nil, contract.GatewayAddress(testSubnet)) })
				c.awaitReady()
			})
		}
	}
}
