package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/node/chassis"
)

func chassisCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chassis",
		Short: "Run the ovn-controllers of nodes that have none of their own",
	}
	const unlessSecret = " (required without tunnel-secret)"
	defaults := chassis.DefaultConfig()
	f := cmd.Flags()
	f.String("kubeconfig", "", kubeconfigUsage)
	f.String("identity", defaults.Identity, "name of this host among the chassis hosts; by default in lower case")
	markHostDefault(f, "identity")
	f.String("zone", "", "the zone of this host: it serves the nodes whose annotation weft.net/node-network has this "+
		"zone; empty: those without a zone")
	f.String("run-dir", defaults.RunDir, "folder with a folder for each node that this host holds")
	f.String("ovn-controller", defaults.OVNController, "the program ovn-controller: a path, or a name that is found in "+
		"PATH")
	f.String("ovn-controller-memory", "0", "how much data the ovn-controller of each node may have before it is ended, "+
		"such as 2Gi, or a number of bytes; 32Mi at least; 0: half of the host's memory, or of the limit of the host's "+
		"cgroup, such as MemoryMax= of its unit")
	f.String("tunnel-ca", "", "PEM file of the CA that signed the agents' certificates"+unlessSecret)
	f.String("tunnel-certificate", "", "PEM file of the chassis hosts' certificate, with the DNS name chassis.weft.net"+
		unlessSecret)
	f.String("tunnel-private-key", "", "PEM file of the key of tunnel-certificate"+unlessSecret)
	f.String("tunnel-secret", "", "NAMESPACE/NAME of a Secret with ca.crt, tls.crt and tls.key, which are used in "+
		"place of tunnel-ca, tunnel-certificate and tunnel-private-key")
	f.String("ovn-southbound", "", "address of the Southbound for ovn-controller, such as ssl:HOST:PORT; empty: "+
		"the address in each node's database")
	f.String("ovn-ca", "", "PEM file of the CA that signed the Southbound's certificate; ovn-controller reads it")
	f.String("ovn-certificate", "", "PEM file that ovn-controller shows to the Southbound; "+chassis.NodePlaceholder+
		" stands for the node's name")
	f.String("ovn-private-key", "", "PEM file of the key of ovn-certificate; "+chassis.NodePlaceholder+
		" stands for the node's name")
	f.String("lease-namespace", defaults.LeaseNamespace, "namespace of the Leases of hosts and nodes")
	f.Duration("lease-duration", defaults.LeaseDuration, "how long a host that does not renew its Lease counts as alive")
	metricsFlags(f, defaults.MetricsAddress)
	return daemon(cmd, func(ctx context.Context, s *settings) error {
		config, err := chassisConfig(s)
		if err != nil {
			return fmt.Errorf("configuration:\n%w", err)
		}
		return chassis.Run(ctx, config)
	})
}

func chassisConfig(s *settings) (chassis.Config, error) {
	config := chassis.Config{
		Kubeconfig:    s.text("kubeconfig"),
		Identity:      s.text("identity"),
		Zone:          s.text("zone"),
		RunDir:        s.text("run-dir"),
		OVNController: s.text("ovn-controller"),

		OVNControllerMemory: s.bytes("ovn-controller-memory"),

		CA:             s.text("tunnel-ca"),
		Certificate:    s.text("tunnel-certificate"),
		PrivateKey:     s.text("tunnel-private-key"),
		Secret:         s.text("tunnel-secret"),
		Southbound:     s.text("ovn-southbound"),
		OVNCA:          s.text("ovn-ca"),
		OVNCertificate: s.text("ovn-certificate"),
		OVNPrivateKey:  s.text("ovn-private-key"),
		LeaseNamespace: s.text("lease-namespace"),
		LeaseDuration:  s.duration("lease-duration"),
		MetricsAddress: s.text("metrics-address"),
		Profiling:      s.boolean("profiling"),
	}
	return config, errors.Join(s.err(), config.Validate())
}
