package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/node"
	"github.com/weftnet/weft/node/nodeconfig"
)

func nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Prepare Open vSwitch on this node and serve the CNI plugin",
	}
	f, defaults := cmd.Flags(), nodeconfig.Default()
	nodeFlags(f, defaults)
	systemFlags(f, defaults)
	daemon(cmd, func(ctx context.Context, s *settings) error {
		config, err := nodeConfig(s)
		if err != nil {
			return fmt.Errorf("configuration:\n%w", err)
		}
		return node.Run(ctx, config)
	})
	cmd.AddCommand(releaseCommand(f))
	cmd.AddCommand(systemCommands(f)...)
	return cmd
}

// nodeConfig reads every key that this system offers.
func nodeConfig(s *settings) (nodeconfig.Config, error) {
	config := nodeconfig.Default()
	config.Kubeconfig = s.text("kubeconfig")
	config.NodeName = s.text("node-name")
	config.OVNSouthbound = strings.Join(s.list("ovn-southbound"), ",")
	config.MonitorAll = s.boolean("ovn-monitor-all")
	config.OVNRunDir = s.text("ovn-rundir")
	config.OVSDatabase = s.text("ovs-database")
	config.OVSOfctl = s.text("ovs-ofctl")
	config.DatapathType = s.text("datapath-type")
	config.EncapType = s.text("encap-type")
	config.EncapAddress = s.address("encap-address")
	config.UplinkMTU = s.integer("uplink-mtu")
	config.Gateway = s.text("gateway")
	config.GatewayNetwork = s.text("gateway-network")
	config.GatewayAddresses = s.prefixes("gateway-addresses")
	config.GatewayNextHops = s.addresses("gateway-next-hops")
	config.BridgeMappings = parseList(s, "bridge-mappings", nodeconfig.ParseBridgeMapping,
		"NETWORK:BRIDGE, such as storage:br-storage")
	config.CNISocket = s.text("cni-socket")
	config.CNIConfDir = s.text("cni-conf-dir")
	config.CNIConfName = s.text("cni-conf-name")
	config.CNICacheDir = s.text("cni-cache-dir")
	config.CNITimeout = s.duration("cni-timeout")
	config.TunnelAddress = s.text("tunnel-address")
	config.TunnelCA = s.text("tunnel-ca")
	config.TunnelCertificate = s.text("tunnel-certificate")
	config.TunnelPrivateKey = s.text("tunnel-private-key")
	config.Capture = s.text("capture")
	config.MetricsAddress = s.text("metrics-address")
	config.Profiling = s.boolean("profiling")
	systemConfig(s, &config)
	return config, errors.Join(s.err(), config.Validate())
}

func releaseCommand(keys *pflag.FlagSet) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Give the host its uplink back while the agent does not run",
		Long:  releaseHelp,
	}
	once(cmd, keys, func(s *settings) error {
		// What the agent would refuse is no reason to leave the host without its uplink.
		config, invalid := nodeConfig(s)
		done, err := node.Release(cmd.Context(), config)
		if err != nil {
			return errors.Join(fmt.Errorf("release the uplink: %w", err), invalid)
		}
		fmt.Fprintln(cmd.OutOrStdout(), done)
		return nil
	})
	return cmd
}

// once has a command do something with the agent's keys, and end.
func once(cmd *cobra.Command, keys *pflag.FlagSet, do func(*settings) error) {
	cmd.Flags().AddFlagSet(keys)
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		s, err := loadSettings(cmd)
		if err != nil {
			return err
		}
		if err := setUpLog(s); err != nil {
			return err
		}
		return do(s)
	}
}
