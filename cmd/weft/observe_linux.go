package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/ovn/hits"
	"github.com/weftnet/weft/ovn/observe"
)

const observeHelp = `Tell users of the API server what the network does, and let them change nothing.

It is the aggregated API observe.weft.net: users reach it by the API server, with a kubeconfig alone, and Kubernetes'
rights (RBAC on the group's resources) say what they may see. "weft status", "weft trace",
"weft flows" and "weft policy hits" ask it.

Run it on central hosts, two or more, each beside a server of OVN's databases, whose read-only sockets it reads. Nodes'
agents tell it their flows' counters, and the connections of pods.`

func observeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Tell users of the API server what the network does",
		Long:  observeHelp,
	}
	defaults := observe.DefaultConfig()
	f := cmd.Flags()
	f.String("kubeconfig", "", userKubeconfigUsage)
	f.String("identity", defaults.Identity, "name of this host among those that run weft observe")
	markHostDefault(f, "identity")
	f.String("listen", "", "ADDRESS:PORT where API servers reach this host, such as 192.0.2.1:6645"+required)
	f.String("ovn-northbound", defaults.Northbound, "read-only socket of the Northbound, unix:PATH")
	f.String("ovn-southbound", defaults.Southbound, "read-only socket of the Southbound, unix:PATH")
	f.String("ovn-trace", defaults.OVNTrace, "program that follows packets for weft trace: a path, or a name that "+
		"is found in PATH; the package ovn-common has it")
	f.String("tunnel-ca", "", "PEM file of the CA that signed the agents' certificates"+required)
	f.String("tunnel-certificate", "", "PEM file of a certificate with the DNS names "+tunnel.ObserverName+" and "+
		observe.ServerName+required)
	f.String("tunnel-private-key", "", "PEM file of the key of tunnel-certificate"+required)
	metricsFlags(f, defaults.MetricsAddress)
	return daemon(cmd, func(ctx context.Context, s *settings) error {
		config := observe.Config{
			Kubeconfig: s.text("kubeconfig"), Identity: s.text("identity"), Listen: s.text("listen"),
			Northbound: s.text("ovn-northbound"), Southbound: s.text("ovn-southbound"), OVNTrace: s.text("ovn-trace"),
			CA: s.text("tunnel-ca"), Certificate: s.text("tunnel-certificate"), PrivateKey: s.text("tunnel-private-key"),
			MetricsAddress: s.text("metrics-address"), Profiling: s.boolean("profiling"),
		}
		if err := errors.Join(s.err(), config.Validate()); err != nil {
			return fmt.Errorf("configuration:\n%w", err)
		}
		access, err := kubernetesConfig(config.Kubeconfig)
		if err != nil {
			return err
		}
		credentials := tunnel.Files(config.CA, config.Certificate, config.PrivateKey)
		dial := func(target tunnel.Target) hits.Dial {
			return func(ctx context.Context, n hits.Node) (net.Conn, error) {
				conn, err := tunnel.Dial(ctx, n.Address, target, credentials, tunnel.AgentName(n.Name))
				return conn, ofThisVersion(err)
			}
		}
		return observe.Run(ctx, config, access, observe.Agents{Counters: dial(tunnel.Counters), Metrics: dial(tunnel.Metrics),
			Capture: dial(tunnel.Capture), Connections: dial(tunnel.Connections), Probe: dial(tunnel.Probe)})
	})
}

// ofThisVersion says of a stream that earlier agents do not serve that it is one.
func ofThisVersion(err error) error {
	if refused := new(tunnel.Error); errors.As(err, &refused) && refused.Reason == tunnel.NoTarget {
		return hits.ErrNoTarget
	}
	return err
}

// kubernetesConfig looks for credentials where kubectl does.
func kubernetesConfig(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %q: %w; name a kubeconfig file", file, err)
	}
	config.QPS = -1
	return config, nil
}
