package doctor

import (
	"context"
	"net"
	"strconv"

	"github.com/weftnet/weft/models/contract"
)

// windowsHost is everything that the checks of a Windows node read.
type windowsHost interface {
	versionReader
	serviceReader
	libraryReader
	moduleReader
	pipeReader
	driverReader
	bootReader
	firewallReader
	vNICReader
	coalescing
	extensionReader
	packetMonitor
}

// windowsChecks are those of a Windows node, the common ones among them.
func windowsChecks(config Config, r readers, host windowsHost, service hnsReader) []check {
	agent := sharedAgent{share(r.agent.Readiness)}
	r.agent = agent
	service = listOnce(service)
	before, after := commonChecks(config, r)
	running := func(ctx context.Context) bool { return installed(ctx, config, agent) }
	checks := append(before, []check{
		{"windows-version", func(context.Context) []Finding { return checkWindowsVersion(host) }},
		{"containers-feature", func(context.Context) []Finding { return checkContainers(host, host) }},
		{"hyper-v", func(context.Context) []Finding { return checkHyperV(host, host) }},
		{"containerd", func(ctx context.Context) []Finding {
			return checkPipe(ctx, host, "containerd", `\\.\pipe\containerd-containerd`, "containerd", false)
		}},
		{"hns-version", func(ctx context.Context) []Finding { return checkHNS(ctx, service) }},
		{"test-signing", func(context.Context) []Finding { return checkBoot(host) }},
		{"vc-runtime", func(context.Context) []Finding { return checkRuntime(host) }},
		{"ovs-driver", func(context.Context) []Finding { return checkDriver(host, config.OVSDriver) }},
		{"driver-signature", func(context.Context) []Finding { return checkDriverSignature(host, host, config.OVSDriver) }},
		{"adapter", func(ctx context.Context) []Finding { return checkAdapter(ctx, host, service, config) }},
		{"adapter-names", func(context.Context) []Finding { return checkAdapterNames(host) }},
		{"mtu", func(ctx context.Context) []Finding { return checkAdapterMTU(ctx, host, service, config) }},
		{"dns-servers", func(context.Context) []Finding { return checkResolvers(host) }},
		{"other-networks", func(ctx context.Context) []Finding { return checkForeignNetworks(ctx, host, service, config) }},
		{"hns-network", func(ctx context.Context) []Finding { return checkHNSNetwork(ctx, service, config, running(ctx)) }},
		{"uplink-name", func(ctx context.Context) []Finding {
			return checkUplinkName(ctx, host, service, config, running(ctx))
		}},
		{"extension-switches", func(ctx context.Context) []Finding {
			return checkExtensionSwitches(ctx, host, host, config)
		}},
		{"rsc", func(ctx context.Context) []Finding { return checkRSC(ctx, host, service, config) }},
		{"firewall", func(context.Context) []Finding { return checkFirewall(host, windowsPorts(config)) }},
		{"geneve-port", func(context.Context) []Finding { return checkFreeGenevePort(tryListenUDP) }},
		{"ovsdb-server-service", func(context.Context) []Finding { return checkDaemon(host, "ovsdb-server", false) }},
		{"ovs-vswitchd-service", func(ctx context.Context) []Finding {
			return checkDaemon(host, "ovs-vswitchd", !running(ctx))
		}},
	}...)
	checks = append(checks, check{"ovs-services-wait", func(context.Context) []Finding { return checkDependencies(host) }})
	checks = append(checks, after...)
	return append(checks, []check{
		{"conntrack-lookup", func(ctx context.Context) []Finding { return checkLookup(ctx, config, r.metrics) }},
		{"conntrack-ftp", func(ctx context.Context) []Finding { return checkFTP(ctx, config, r.metrics) }},
		{"hns-calls", func(ctx context.Context) []Finding { return checkHNSCalls(ctx, r.metrics) }},
		{"cni-pipe", func(ctx context.Context) []Finding {
			return checkPipe(ctx, host, "cni-pipe", config.CNISocket, "the agent", running(ctx))
		}},
		{"packet-monitor", func(ctx context.Context) []Finding { return checkPacketMonitor(ctx, host) }},
		{"agent-service", func(context.Context) []Finding { return checkAgentService(host, config.Service) }},
	}...)
}

// windowsPorts are those that the cluster must reach on a Windows node.
func windowsPorts(config Config) []openPort {
	ports := []openPort{
		{protocol: protocolUDP, port: contract.TunnelPort, use: "GENEVE", below: true},
		{protocol: protocolTCP, port: 10250, use: "kubelet"},
	}
	if !config.Hosted {
		return ports
	}
	if _, text, err := net.SplitHostPort(config.TunnelAddress); err == nil {
		if port, err := strconv.ParseUint(text, 10, 16); err == nil && port > 0 {
			ports = append(ports, openPort{protocol: protocolTCP, port: uint16(port), use: "chassis host",
				callers: "all chassis hosts and all hosts of weft observe"})
		}
	}
	return ports
}
