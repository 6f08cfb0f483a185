package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	defaults := nodeconfig.Default()
	hostname, _ := os.Hostname() // without one the key has no default, and its absence is reported
	f := cmd.Flags()
	f.String("kubeconfig", "", "credentials for the API server; empty inside a pod")
	f.String("node-name", strings.ToLower(hostname), "this node's name in Kubernetes")
	f.StringSlice("ovn-southbound", nil, "endpoints of the OVN Southbound as ovn-controller dials them, e.g. "+
		"ssl:192.0.2.1:6642,ssl:192.0.2.2:6642")
	f.String("ovn-rundir", "", "where ovn-controller has its control socket; found beside the OVS database's if empty")
	f.String("ovs-database", defaults.OVSDatabase, "this node's Open_vSwitch database")
	f.String("ovs-ofctl", defaults.OVSOfctl, "Open vSwitch's program for flows: a path, or a name in PATH")
	f.String("datapath-type", defaults.DatapathType, "system (kernel) or netdev (userspace)")
	f.String("encap-type", defaults.EncapType, "tunnel protocol")
	f.String("encap-address", "", "this node's tunnel end point")
	f.Int("uplink-mtu", defaults.UplinkMTU, "bytes; 0 reads it from the interface that holds encap-address")
	f.String("gateway", "", "how pods reach the outside: local (this node's own gateway router), routed (the same, pods "+
		"keep their addresses), shared (the gateway nodes) or none; empty is local on Windows, and where another gateway "+
		"key asks for it")
	f.String("gateway-network", defaults.GatewayNetwork, "the external bridge's name in ovn-bridge-mappings")
	f.StringSlice("gateway-addresses", nil, "the gateway router's addresses with prefix length, at most one an address "+
		"family; empty are the host's own on the bridge")
	f.StringSlice("gateway-next-hops", nil, "next hops of the gateway router's default routes; empty are those of the "+
		"host's default routes")
	f.StringSlice("bridge-mappings", nil, "bridges to further external networks, NETWORK:BRIDGE, added to "+
		"ovn-bridge-mappings")
	f.String("cni-socket", defaults.CNISocket, "where weft-cni finds this agent")
	f.String("cni-conf-dir", defaults.CNIConfDir, "where the container runtime reads CNI configurations")
	f.String("cni-conf-name", defaults.CNIConfName, "name of weft's file there")
	f.Duration("cni-timeout", defaults.CNITimeout, "how long a CNI ADD waits for the pod's address and flows")
	f.String("tunnel-address", defaults.TunnelAddress, "where weft observe and the chassis host connect, HOST:PORT; "+
		"without HOST all addresses, and they are told encap-address")
	f.String("tunnel-ca", "", "PEM file of the CA that signed their certificates")
	f.String("tunnel-certificate", "", "PEM file of this node's certificate, of DNS name NODE.node.weft.net; a Linux "+
		"node without one takes no connections")
	f.String("tunnel-private-key", "", "PEM file of the certificate's key")
	f.String("metrics-address", defaults.MetricsAddress, "of /metrics, /healthz and /readyz; empty serves none")
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
	config.CNITimeout = s.duration("cni-timeout")
	config.TunnelAddress = s.text("tunnel-address")
	config.TunnelCA = s.text("tunnel-ca")
	config.TunnelCertificate = s.text("tunnel-certificate")
	config.TunnelPrivateKey = s.text("tunnel-private-key")
	config.MetricsAddress = s.text("metrics-address")
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
