package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/ovn"
	ovnsettings "github.com/weftnet/weft/ovn/settings"
)

func controllerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Keep the OVN Northbound in step with Kubernetes",
	}
	defaults := ovnsettings.DefaultConfig()
	f := cmd.Flags()
	f.String("kubeconfig", "", "credentials for the API server; empty inside a pod")
	f.StringSlice("ovn-northbound", nil, "endpoints of the OVN Northbound: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")
	f.String("ovn-ca", "", "PEM file of the CA that signed the Northbound's certificate, for ssl endpoints")
	f.String("ovn-certificate", "", "PEM file of the controller's certificate, for ssl endpoints")
	f.String("ovn-private-key", "", "PEM file of the certificate's key, for ssl endpoints")
	f.StringSlice("pod-cidrs", nil, "ranges of all pod addresses, at most one an address family")
	f.StringSlice("service-cidrs", nil, "ranges of ClusterIPs, at most one an address family")
	f.StringSlice("join-cidrs", defaults.JoinCIDRs, "ranges between the cluster's router and the nodes' gateways, never "+
		"seen outside")
	f.Bool("allocate-node-cidrs", defaults.AllocateNodeCIDRs,
		"cut node subnets out of pod-cidrs where Kubernetes does not")
	f.String("node-port-range", defaults.NodePortRange, "ports that the API server gives Services on nodes: its "+
		"--service-node-port-range")
	f.StringSlice("host-ports", defaults.HostPorts, "ports of hosts' addresses that no Service and no pod gets, as "+
		"tcp/22 or tcp/10250-10259")
	f.StringSlice("host-cidrs", nil, "addresses of hosts that are no nodes: no Service gets them by spec.externalIPs")
	f.StringSlice("host-external-ip-cidrs", nil, "ranges of hosts' addresses that Services may have by spec.externalIPs "+
		"all the same")
	f.Int("node-cidr-mask-size-ipv4", defaults.NodeCIDRMaskIPv4, "prefix length of such IPv4 subnets")
	f.Int("node-cidr-mask-size-ipv6", defaults.NodeCIDRMaskIPv6, "prefix length of such IPv6 subnets")
	f.StringSlice("shared-gateway-addresses", nil, "addresses outside of pods whose nodes have no gateway of their own, "+
		"each with its subnet's length; empty: no shared gateway")
	f.StringSlice("shared-gateway-next-hops", nil, "the shared gateway's routers to everywhere else, in those subnets")
	f.String("default-gateway-network", defaults.DefaultGatewayNetwork,
		"gateway-network that nodes without the label weft.net/gateway-network are granted; empty grants none")
	f.String("shared-gateway-network", defaults.SharedGatewayNetwork, "the gateway-network of the gateway nodes' agents")
	f.Int("windows-pod-connections", defaults.WindowsPodConnections,
		"how many connections a pod of a Windows node may have at a time; 0: no bound")
	f.Int("windows-node-connections", defaults.WindowsNodeConnections,
		"how many connections all pods of a Windows node together may have by its gateway at a time; 0: no bound")
	f.Bool("allocate-load-balancer-addresses", defaults.AllocateLoadBalancerAddresses,
		"give Services of type LoadBalancer without a class addresses of AddressPools")
	f.StringSlice("dns-services", defaults.DNSServices, "the cluster's DNS Services, NAMESPACE/NAME, whose servers' "+
		"answers say what domain names in policies mean")
	f.StringSlice("dns-server-nodes", defaults.DNSNodes, "nodes that are believed about domain names in policies "+
		"whatever pods they have, such as those with static pods as DNS servers")
	f.String("metrics-address", defaults.MetricsAddress, "of /metrics, /healthz and /readyz; empty serves none")
	f.Bool("profiling", defaults.Profiling, "serve /debug/pprof there too")
	f.String("lease-namespace", defaults.LeaseNamespace, "namespace of the Lease that elects the leader")
	f.String("lease-name", defaults.LeaseName, "name of that Lease")
	f.Duration("lease-duration", defaults.LeaseDuration, "how long a silent leader is still believed to be one")
	f.String("identity", defaults.Identity, "this controller among those that want the Lease; empty is host name and a "+
		"random suffix")
	return daemon(cmd, func(ctx context.Context, s *settings) error {
		config, err := controllerConfig(s)
		if err != nil {
			return fmt.Errorf("configuration:\n%w", err)
		}
		return ovn.Run(ctx, config)
	})
}

func controllerConfig(s *settings) (ovnsettings.Config, error) {
	config := ovnsettings.Config{
		Kubeconfig:                    s.text("kubeconfig"),
		Northbound:                    s.list("ovn-northbound"),
		CA:                            s.text("ovn-ca"),
		Certificate:                   s.text("ovn-certificate"),
		PrivateKey:                    s.text("ovn-private-key"),
		PodCIDRs:                      s.list("pod-cidrs"),
		ServiceCIDRs:                  s.list("service-cidrs"),
		NodePortRange:                 s.text("node-port-range"),
		HostPorts:                     s.list("host-ports"),
		HostCIDRs:                     s.list("host-cidrs"),
		HostExternalIPCIDRs:           s.list("host-external-ip-cidrs"),
		JoinCIDRs:                     s.list("join-cidrs"),
		AllocateNodeCIDRs:             s.boolean("allocate-node-cidrs"),
		NodeCIDRMaskIPv4:              s.integer("node-cidr-mask-size-ipv4"),
		NodeCIDRMaskIPv6:              s.integer("node-cidr-mask-size-ipv6"),
		SharedGatewayAddresses:        s.list("shared-gateway-addresses"),
		SharedGatewayNextHops:         s.list("shared-gateway-next-hops"),
		SharedGatewayNetwork:          s.text("shared-gateway-network"),
		DefaultGatewayNetwork:         s.text("default-gateway-network"),
		WindowsPodConnections:         s.integer("windows-pod-connections"),
		WindowsNodeConnections:        s.integer("windows-node-connections"),
		AllocateLoadBalancerAddresses: s.boolean("allocate-load-balancer-addresses"),
		DNSServices:                   s.list("dns-services"),
		DNSNodes:                      s.list("dns-server-nodes"),
		MetricsAddress:                s.text("metrics-address"),
		Profiling:                     s.boolean("profiling"),
		LeaseNamespace:                s.text("lease-namespace"),
		LeaseName:                     s.text("lease-name"),
		LeaseDuration:                 s.duration("lease-duration"),
		Identity:                      s.text("identity"),
	}
	return config, errors.Join(s.err(), config.Validate())
}
