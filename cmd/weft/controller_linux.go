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
	f.String("kubeconfig", "", kubeconfigUsage)
	f.StringSlice("ovn-northbound", nil, "endpoints of the OVN Northbound, each unix:PATH, tcp:HOST:PORT or "+
		"ssl:HOST:PORT; in a cluster with zones, each with its zone's name in front, as a=ssl:HOST:PORT"+required)
	f.String("ovn-ca", "", "PEM file of the CA that signed the Northbound's certificate, for ssl endpoints")
	f.String("ovn-certificate", "", "PEM file of the controller's certificate, for ssl endpoints")
	f.String("ovn-private-key", "", "PEM file of the key of ovn-certificate, for ssl endpoints")
	f.StringSlice("pod-cidrs", nil, "ranges of all pod addresses, at most one for each address family"+required)
	f.StringSlice("service-cidrs", nil, "ranges of ClusterIPs, at most one for each address family; those of "+
		"objects ServiceCIDR are added"+required)
	f.StringSlice("join-cidrs", defaults.JoinCIDRs, "ranges of the addresses between the cluster's router and the "+
		"nodes' gateway routers; pods may see them as addresses of clients, and networks outside never see them")
	f.String("transit-cidr", defaults.TransitCIDR, "range of the addresses between zones, in a cluster with zones; "+
		"nothing outside OVN sees them")
	f.Bool("allocate-node-cidrs", defaults.AllocateNodeCIDRs, "cut pod subnets out of pod-cidrs for those nodes "+
		"that have no spec.podCIDRs")
	f.String("node-port-range", defaults.NodePortRange, "ports that the API server gives Services on nodes: the value "+
		"of its --service-node-port-range")
	f.StringSlice("host-ports", defaults.HostPorts, "ports at the addresses of hosts that no Service and no pod gets, "+
		"each as tcp/22 or tcp/10250-10259; a list replaces the default")
	f.StringSlice("host-cidrs", nil, "addresses of hosts that are not nodes, beside those in ovn-northbound; no Service "+
		"gets them by spec.externalIPs, except those in host-external-ip-cidrs")
	f.StringSlice("host-external-ip-cidrs", nil, "ranges of addresses of hosts that Services may have by "+
		"spec.externalIPs, except for host-ports, the endpoints of default/kubernetes and ports of nodes' daemons")
	f.Int("node-cidr-mask-size-ipv4", defaults.NodeCIDRMaskIPv4, "prefix length of the IPv4 pod subnets that "+
		"allocate-node-cidrs cuts")
	f.Int("node-cidr-mask-size-ipv6", defaults.NodeCIDRMaskIPv6, "prefix length of the IPv6 pod subnets that "+
		"allocate-node-cidrs cuts")
	f.StringSlice("shared-gateway-addresses", nil, "addresses that pods have outside if the key gateway of their "+
		"node is shared, each with the prefix length of its subnet; empty: no shared gateway")
	f.StringSlice("shared-gateway-next-hops", nil, "next hops of the shared gateway's default routes, in the subnets "+
		"of shared-gateway-addresses")
	f.String("default-gateway-network", defaults.DefaultGatewayNetwork, "network outside that the gateway of a node "+
		"may be on if the Node has no label weft.net/gateway-network; empty: none")
	f.String("shared-gateway-network", defaults.SharedGatewayNetwork, "network outside that the shared gateway is on: "+
		"the gateway-network of the gateway nodes' agents")
	f.Int("windows-pod-connections", defaults.WindowsPodConnections, "how many places for connections each zone of "+
		"a pod on a Windows node may take; 0: no bound")
	f.Int("windows-node-connections", defaults.WindowsNodeConnections, "how many places for connections each zone "+
		"may take that all pods of a Windows node have in common; one of these zones may take twice as many, and another "+
		"one three times as many; 0: no bound")
	f.Bool("allocate-load-balancer-addresses", defaults.AllocateLoadBalancerAddresses, "give Services of type "+
		"LoadBalancer that have no loadBalancerClass addresses of AddressPools")
	f.Bool("pod-networks", defaults.PodNetworks, "tell nodes the addresses of their pods by one object PodNetworks for "+
		"each node, in place of an annotation of each pod; an agent that cannot read it still gets annotations")
	f.StringSlice("dns-services", defaults.DNSServices, "the cluster's DNS Services, each NAMESPACE/NAME; answers of "+
		"their pods say which addresses the domain names in policies have")
	f.StringSlice("dns-server-nodes", defaults.DNSNodes, "nodes whose DNS answers for domain names in policies "+
		"count even if no pod of dns-services runs there, for example if DNS servers are static pods")
	metricsFlags(f, defaults.MetricsAddress)
	f.Duration("latency-interval", defaults.LatencyInterval, "how often the leader measures how long a change of "+
		"the Northbound takes to reach the Southbound and all chassis; it raises nb_cfg, which wakes the "+
		"ovn-controllers of all nodes; 10s at least; 0: never")
	f.String("lease-namespace", defaults.LeaseNamespace, "namespace of the Lease that elects the leader")
	f.String("lease-name", defaults.LeaseName, "name of the Lease that elects the leader")
	f.Duration("lease-duration", defaults.LeaseDuration, "how long a leader that does not renew the Lease counts as "+
		"the leader")
	f.String("identity", defaults.Identity, "name of this controller among those that want the Lease; empty: the host "+
		"name and a random suffix")
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
		TransitCIDR:                   s.text("transit-cidr"),
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
		PodNetworks:                   s.boolean("pod-networks"),
		DNSServices:                   s.list("dns-services"),
		DNSNodes:                      s.list("dns-server-nodes"),
		MetricsAddress:                s.text("metrics-address"),
		Profiling:                     s.boolean("profiling"),
		LatencyInterval:               s.duration("latency-interval"),
		LeaseNamespace:                s.text("lease-namespace"),
		LeaseName:                     s.text("lease-name"),
		LeaseDuration:                 s.duration("lease-duration"),
		Identity:                      s.text("identity"),
	}
	return config, errors.Join(s.err(), config.Validate())
}
