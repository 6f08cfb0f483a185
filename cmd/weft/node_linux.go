package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/node"
	"github.com/weftnet/weft/node/encryption"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
)

// systemConfig reads the keys of a Linux node alone.
func systemConfig(s *settings, config *nodeconfig.Config) {
	config.GatewayInterface = s.text("gateway-interface")
	config.GatewayBridge = s.text("gateway-bridge")
	config.Encryption = ipsec.Mode(s.text("encryption"))
	config.EncryptionCA = s.text("encryption-ca")
	config.EncryptionCertificate = s.text("encryption-certificate")
	config.EncryptionPrivateKey = s.text("encryption-private-key")
	config.EncryptionCharon = s.text("encryption-charon")
	config.DataDir = s.text("data-dir")
	config.DNSServices = s.list("dns-services")
}

const releaseHelp = `Give the host its uplink back.

An agent whose gateway shares the host's addresses has put the device of gateway-interface, and what the host
has on it, on gateway-bridge. This undoes it: the device has the host's addresses and routes again, and a
bridge that the agent has made for it is gone. Connections of the host survive. Stop the agent first, which
would do it again; it does the same by itself once gateway is "shared" or "none".

It takes the keys of "weft node", from the same file.`

// systemCommands are those of a Linux node alone.
func systemCommands(keys *pflag.FlagSet) []*cobra.Command {
	await := &cobra.Command{
		Use:   "await-flows",
		Short: "Wait until an ovs-vswitchd that has restarted has its flows back",
		Long:  awaitFlowsHelp,
	}
	once(await, keys, func(s *settings) error {
		config, invalid := nodeConfig(s)
		if err := node.AwaitFlows(await.Context(), config); err != nil {
			return errors.Join(err, invalid)
		}
		return nil
	})
	share := &cobra.Command{
		Use:   "share",
		Short: "Move the host's addresses to the uplink's bridge before the agent runs",
		Long:  shareHelp,
	}
	once(share, keys, func(s *settings) error {
		config, err := nodeConfig(s)
		if err != nil {
			return fmt.Errorf("configuration:\n%w", err)
		}
		done, err := node.Share(share.Context(), config)
		if err != nil {
			return fmt.Errorf("share the uplink: %w", err)
		}
		fmt.Fprintln(share.OutOrStdout(), done)
		return nil
	})
	guard := &cobra.Command{
		Use:   "guard",
		Short: "See to it that no tunnel sends in the clear, if encryption is enforce",
		Long:  guardHelp,
	}
	once(guard, keys, func(s *settings) error {
		// What the agent would refuse of other keys is no reason to leave the node without ovn-controller.
		config, invalid := nodeConfig(s)
		if config.Encryption != ipsec.Enforce {
			return invalid
		}
		return encryption.Guard(config)
	})
	return []*cobra.Command{await, share, guard}
}

const guardHelp = `See to it that no tunnel sends in the clear, if encryption is enforce.

This command writes the IPsec policies of the key encryption: enforce, as the agent does when it starts. With
them, the kernel drops what tunnels would send or receive unencrypted. It fails if it cannot write them. With
another value of the key it does nothing. The role weft_node_linux has systemd run it before ovn-controller
starts. So ovn-controller makes no tunnel as long as the policies are missing, whatever the agent does.

It takes the keys of "weft node", from the same file.`

const shareHelp = `Move the host's addresses to the uplink's bridge before the agent runs.

After a boot, the device of gateway-interface is a port of gateway-bridge, and the host's network configuration
has given the addresses to the device. So the host is not reached by it until the addresses are on the bridge.
The agent moves them when it starts. An agent that is a pod starts only when the kubelet has reached the API
server. This command needs no API server: run it before the kubelet, and before ovn-controller. It waits until
the host has its addresses and Open vSwitch runs. It does nothing while the agent runs, or if gateway-addresses
or no gateway-interface is set. The role weft_node_linux uses this in weft-uplink.service.

If the bridge has lost the agent's flows, the command also takes the node's gateway router off the bridge. The
agent connects it again when it starts.

With encryption: enforce, it first writes the IPsec policies: then nothing passes a tunnel in the clear.

It takes the keys of "weft node", from the same file.`

const awaitFlowsHelp = `Wait until an ovs-vswitchd that has restarted has its flows back.

The kernel's datapath forwards by the flows that it has while other_config:flow-restore-wait is true in table
Open_vSwitch. Flows count as complete when br-int, and gateway-bridge where the node has a gateway, have some
and have got no more for a second. The role weft_node_linux uses this in weft-flows.service.

It takes the keys of "weft node", from the same file.`
