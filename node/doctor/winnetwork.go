package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/ovsdriver"
)

// adapterReader lists the adapters of Windows, see [hostnet.Host].
type adapterReader interface {
	Adapters() ([]hostnet.Adapter, error)
}

// hnsReader is how HNS is asked; errAbsent where Windows has none.
type hnsReader interface {
	Version(context.Context) (hns.Version, error)
	Networks(context.Context) ([]hns.Network, error)
	Switch(context.Context, hns.Network) (hns.Switch, error)
}

// listedHNS lists the networks once for all checks: calls of HNS are made one after the other.
type listedHNS struct {
	hnsReader
	list *shared[[]hns.Network]
}

func listOnce(service hnsReader) hnsReader { return listedHNS{service, share(service.Networks)} }

func (l listedHNS) Networks(ctx context.Context) ([]hns.Network, error) { return l.list.get(ctx) }

// uplink finds the adapter that the node's tunnels leave by: the configured one, the one under the HNS
// network once that is there, or the one that holds encap-address.
func uplink(adapters []hostnet.Adapter, networks []hns.Network, config Config) (hostnet.Adapter, error) {
	name := config.Adapter
	for _, n := range networks {
		if n.Name == config.HNSNetwork && name == "" {
			name = n.Adapter
		}
	}
	if name != "" {
		if a, found := hostnet.Named(adapters, name); found {
			return a, nil
		}
		return hostnet.Adapter{}, fmt.Errorf("there is no adapter %q; there are: %s", name, adapterNames(adapters))
	}
	if !config.EncapAddress.IsValid() {
		return hostnet.Adapter{}, errors.New("neither adapter nor encap-address is set")
	}
	if a, found := hostnet.Holding(adapters, config.EncapAddress); found {
		return a, nil
	}
	return hostnet.Adapter{}, fmt.Errorf("no adapter holds encap-address %v; there are: %s", config.EncapAddress,
		adapterNames(adapters))
}

func adapterNames(adapters []hostnet.Adapter) string {
	var names []string
	for _, a := range adapters {
		if a.InHost() && a.Kind != hostnet.Loopback {
			names = append(names, fmt.Sprintf("%s %v", a.Alias, a.Global()))
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return shorten(names, 8)
}

// checkAdapter: the adapter under the virtual switch must be a real one of its own. Over a team machines
// have stopped with a blue screen (ovs-issues 78, 111).
func checkAdapter(ctx context.Context, reader adapterReader, service hnsReader, config Config) []Finding {
	const s = subject("adapter")
	adapters, err := reader.Adapters()
	if err != nil {
		return s.unknown("run `Get-NetAdapter`", "%v", err)
	}
	networks, silence := service.Networks(ctx) // none before the installation
	a, err := uplink(adapters, networks, config)
	if silence != nil && !errors.Is(silence, errAbsent) && a.Kind == hostnet.Virtual {
		return s.unknown("see the check hns-version", "only HNS knows what is below adapter %s, and it does not answer",
			a.Alias)
	}
	if err != nil {
		return s.failed("set adapter to the name of the adapter on the network between nodes, and encap-address to "+
			"its address", "%v", err)
	}
	const another = "set adapter to a physical adapter of its own"
	name := fmt.Sprintf("adapter %s (%s)", a.Alias, a.Description)
	switch {
	case a.Kind == hostnet.Team:
		return s.failed(another+", or take the team apart (`Remove-NetLbfoTeam`)", "%s is a team", name)
	case a.Kind != hostnet.Physical:
		return s.failed(another+", or remove the virtual switch that it belongs to (`Get-VMSwitch`, `Get-HnsNetwork`), "+
			"which may be a team of adapters, too", "%s is not a physical one", name)
	case !a.Up:
		return s.failed("plug it in, or run `Enable-NetAdapter`", "%s is down", name)
	}
	holder, held := hostnet.Holding(adapters, config.EncapAddress)
	switch {
	case !config.EncapAddress.IsValid():
		return s.unknown("set encap-address to the node's address on the network between nodes",
			"%s is up, and encap-address is not set", name)
	case !held:
		return s.failed("give the node back its address, by DHCP or `New-NetIPAddress`; the agent does so, too, when "+
			"it starts", "%s is there, but no adapter of the host holds encap-address %v", name, config.EncapAddress)
	case holder.Alias != a.Alias && !bytes.Equal(holder.MAC, a.MAC):
		return s.failed("set adapter or encap-address so that they fit", "encap-address %v is on adapter %s, and not on %s",
			config.EncapAddress, holder.Alias, a.Alias)
	}
	return s.ok("%s is up, %v is on %s", name, config.EncapAddress, holder.Alias)
}

// checkAdapterNames looks for adapters that Open vSwitch would disable and rename, see [hostnet.Mistakable].
func checkAdapterNames(reader adapterReader) []Finding {
	const s = subject("adapter-names")
	adapters, err := reader.Adapters()
	if err != nil {
		return s.unknown("run `Get-NetAdapter`", "%v", err)
	}
	if a, port, ok := hostnet.Mistakable(adapters); ok {
		return s.failed("run `Rename-NetAdapter -Name '"+a.Alias+"' -NewName NAME`",
			"the name of adapter %s contains %s, by which Open vSwitch looks for an adapter of its own: it may disable this one",
			a.Alias, port)
	}
	return s.ok("no adapter can be taken for one of Open vSwitch's")
}

// vNICReader knows Hyper-V's names of the host's adapters, see [hostnet.Host].
type vNICReader interface {
	adapterReader
	VMAdapter(ctx context.Context, virtualSwitch string, mac net.HardwareAddr) (string, error)
}

// checkUplinkName compares both names of the host's adapter on the switch. An ovs-vswitchd that starts looks for
// Hyper-V's; where it is another one it makes an adapter of its own, and disables the host's for its alias. The agent
// looks at them when it starts.
func checkUplinkName(ctx context.Context, reader vNICReader, service hnsReader, config Config, running bool) []Finding {
	const s = subject("uplink-name")
	networks, err := service.Networks(ctx)
	if err != nil && !errors.Is(err, errAbsent) {
		return s.unknown("run `Get-VMNetworkAdapter -ManagementOS`", "HNS does not say whether there is a switch: %v", err)
	}
	i := slices.IndexFunc(networks, func(n hns.Network) bool { return n.Name == config.HNSNetwork })
	if i < 0 {
		return s.ok("there is no HNS network %s yet; the agent names the host's adapter on it %s", config.HNSNetwork,
			hostnet.HostAdapter)
	}
	look := "run `Get-VMNetworkAdapter -ManagementOS -SwitchName " + config.HNSNetwork + "`"
	adapters, err := reader.Adapters()
	if err != nil {
		return s.unknown(look, "%v", err)
	}
	below, _ := hostnet.Named(adapters, networks[i].Adapter)
	host, found := hostnet.Management(adapters, networks[i].Adapter, below.MAC)
	if !found { // HNS may not tell what is below
		host, found = hostnet.Holding(adapters, config.EncapAddress)
		found = found && host.Kind == hostnet.Virtual
	}
	if !found {
		return s.unknown(look, "the host's adapter on the switch of HNS network %s is not found", config.HNSNetwork)
	}
	name, err := reader.VMAdapter(ctx, config.HNSNetwork, host.MAC)
	switch {
	case err != nil:
		return s.unknown(look, "%v", err)
	case name == hostnet.HostAdapter && host.Alias == hostnet.HostAdapter:
		return s.ok("the host's adapter on the switch is called %s by Hyper-V, too", hostnet.HostAdapter)
	case !running:
		return s.warning("start the agent, which renames it, before ovs-vswitchd starts again",
			"Hyper-V calls the host's adapter on the switch %q, and Windows %q: both are to be %s", name, host.Alias,
			hostnet.HostAdapter)
	}
	return s.failed("restart the agent, which renames it, before ovs-vswitchd starts again",
		"Hyper-V calls the host's adapter on the switch %q, and Windows %q, where both are to be %s: the next ovs-vswitchd "+
			"makes an adapter of its own, and may disable this one", name, host.Alias, hostnet.HostAdapter)
}

// GENEVE's overhead with OVN's option, in bytes, and the least that is left for an IPv6 packet.
const (
	overheadIPv4 = 58
	overheadIPv6 = 78
	leastPodMTU  = 1280
	udpHeader    = 8 // ICMP's is as long
)

// assessMTU tells what an uplink's MTU leaves for pods.
func assessMTU(device string, actual int, config Config) []Finding {
	const s = subject("mtu")
	const remedy = "raise the MTU of the network between nodes, on every node and switch"
	mtu, overhead, headers, whole := actual, overheadIPv4, 28, "-f "
	if config.EncapAddress.Is6() { // nobody fragments on the way, and ping has no -f
		overhead, headers, whole = overheadIPv6, 48, ""
	}
	if config.UplinkMTU != 0 {
		mtu = config.UplinkMTU
	}
	if actual > 0 && mtu > actual {
		return s.failed("lower uplink-mtu, or "+remedy, "uplink-mtu is %d, but %s carries only %d bytes: large packets "+
			"would be lost", mtu, device, actual)
	}
	pods := mtu - overhead
	if config.Encrypted {
		header := headers - udpHeader
		pods = ipsec.Payload(mtu, header) - (overhead - header)
	}
	if pods < leastPodMTU {
		return s.failed(remedy, "%s carries %d bytes, which leaves %d for pods; IPv6 needs %d", device, mtu, pods,
			leastPodMTU)
	}
	return s.ok("%s carries %d bytes, pods get %d; whether the network between nodes carries them too, `ping %s-l %d` "+
		"(Linux: `ping -M do -s %d`) to another node tells", device, mtu, pods, whole, mtu-headers, mtu-headers)
}

func checkAdapterMTU(ctx context.Context, reader adapterReader, service hnsReader, config Config) []Finding {
	const s = subject("mtu")
	adapters, err := reader.Adapters()
	if err != nil {
		return s.unknown("run `Get-NetIPInterface`", "%v", err)
	}
	networks, _ := service.Networks(ctx) // without them it is the host's own adapter, whose MTU is the same
	a, err := uplink(adapters, networks, config)
	if err != nil {
		return s.unknown("", "the adapter is not known")
	}
	if a.MTU <= 0 {
		return s.unknown("run `Get-NetIPInterface -InterfaceAlias \""+a.Alias+"\"`", "Windows does not tell the MTU of %s",
			a.Alias)
	}
	return assessMTU(a.Alias, a.MTU, config)
}

// checkHNS: the second API is that of Windows Server 2019 and later.
func checkHNS(ctx context.Context, service hnsReader) []Finding {
	const s = subject("hns-version")
	v, err := service.Version(ctx)
	var hung *hns.HungError
	switch {
	case errors.Is(err, errAbsent):
		return s.failed("run `Install-WindowsFeature Containers -Restart`", "%v", err)
	case errors.As(err, &hung), errors.Is(err, context.DeadlineExceeded):
		return s.failed(contract.RestartHNS, "%v", err)
	case err != nil:
		return s.failed("see whether the services hns and vmcompute run (`Get-Service hns, vmcompute`)",
			"HNS does not answer: %v", err)
	}
	text := fmt.Sprintf("HNS %d.%d", v.Major, v.Minor)
	switch {
	case v.Major < 9 || v.Major == 9 && v.Minor < 2:
		return s.failed("update Windows", "%s has no second API (9.2)", text)
	case v.Major < 11 || v.Major == 11 && v.Minor < 10:
		return s.warning("use Windows Server 2022 or 2025", "%s has no dual stack (11.10)", text)
	}
	return s.ok("%s, with dual stack", text)
}

// checkHNSNetwork: the agent makes network and switch, and keeps the extension enabled. Before it runs
// only what would be in its way counts.
func checkHNSNetwork(ctx context.Context, service hnsReader, config Config, running bool) []Finding {
	const s = subject("hns-network")
	networks, err := service.Networks(ctx)
	var hung *hns.HungError
	if errors.As(err, &hung) {
		return s.failed(contract.RestartHNS, "%v", err)
	}
	if err != nil {
		return s.unknown("run `Get-HnsNetwork`", "%v", err)
	}
	i := slices.IndexFunc(networks, func(n hns.Network) bool { return n.Name == config.HNSNetwork })
	switch {
	case i < 0 && running:
		return s.failed("see the agent's log", "the agent runs, but there is no HNS network %s", config.HNSNetwork)
	case i < 0:
		return s.ok("no HNS network %s yet; the agent makes it", config.HNSNetwork)
	case networks[i].Type != hns.Transparent:
		return s.failed("remove it (`Get-HnsNetwork | ? Name -eq "+config.HNSNetwork+" | Remove-HnsNetwork`), or set "+
			"hns-network to another name", "the HNS network %s is of type %s and not %s", config.HNSNetwork, networks[i].Type,
			hns.Transparent)
	}
	return assessExtension(ctx, service, networks[i], config.OVSDriver, running)
}

func assessExtension(ctx context.Context, service hnsReader, network hns.Network, driver string,
	running bool) []Finding {
	const s = subject("ovs-extension")
	found := subject("hns-network").ok("%s, type %s, on adapter %s", network.Name, network.Type, network.Adapter)
	state, err := service.Switch(ctx, network)
	if err != nil {
		return append(found, s.unknown("run `Get-VMSwitchExtension`", "%v", err)...)
	}
	kind, known, err := ovsdriver.Installed(driver, func(k ovsdriver.Kind) bool {
		_, ok := state.Extension(k.Extension)
		return ok
	})
	extension, _ := state.Extension(kind.Extension)
	switch {
	case err != nil:
		return append(found, s.failed("set the key ovs-driver, or remove a driver", "%v", err)...)
	case !known:
		return append(found, s.failed(installOVS(kind), "the switch of HNS network %s knows no extension of Open vSwitch",
			network.Name)...)
	case !extension.Enabled && running:
		return append(found, s.failed("the agent enables it within a moment; if it stays so, see its log",
			"the extension is disabled: pods on this node have no network")...)
	case !extension.Enabled:
		return append(found, s.warning("start the agent, which enables it", "the extension is disabled, as it may be "+
			"after a reboot")...)
	}
	return append(found, s.ok("%s is enabled", kind.Title)...)
}

// extensionReader lists the virtual switches on which an extension is enabled.
type extensionReader interface {
	ExtensionSwitches(ctx context.Context, extension string) ([]string, error)
}

// checkExtensionSwitches looks for the extension on switches other than that of weft's HNS network. Open vSwitch makes
// no vNIC of a port of type internal while it is enabled on two (create_wmi_port of lib/wmi.c), and its driver serves
// the first that comes (OvsExtAttach of Switch.c).
func checkExtensionSwitches(ctx context.Context, drivers driverReader, reader extensionReader,
	config Config) []Finding {
	const s = subject("extension-switches")
	d, err := findDriver(drivers, config.OVSDriver)
	if err != nil {
		return s.unknown("", "there is no driver whose extension could be enabled")
	}
	switches, err := reader.ExtensionSwitches(ctx, d.Kind.Title)
	if err != nil {
		return s.unknown("run `Get-VMSwitch | Get-VMSwitchExtension`", "%v", err)
	}
	others := slices.DeleteFunc(switches, func(name string) bool { return name == config.HNSNetwork })
	if len(others) > 0 {
		slices.Sort(others)
		return s.failed("run `Disable-VMSwitchExtension -VMSwitchName '"+others[0]+"' -Name '"+d.Kind.Title+"'`, or "+
			"remove the switch; then restart ovs-vswitchd and the agent", "the extension is enabled on the virtual switch "+
			"%s, which is not weft's: while it is on two, Open vSwitch makes no vNIC for a port, and the driver serves one "+
			"switch alone",
			strings.Join(others, ", "))
	}
	return s.ok("the extension is enabled on no other virtual switch")
}

// checkForeignNetworks: an adapter has one virtual switch, so the networks of a former CNI plugin on it
// are in the way.
func checkForeignNetworks(ctx context.Context, reader adapterReader, service hnsReader, config Config) []Finding {
	const s = subject("other-networks")
	networks, err := service.Networks(ctx)
	if err != nil {
		return s.unknown("run `Get-HnsNetwork`", "%v", err)
	}
	name := config.Adapter
	if adapters, err := reader.Adapters(); err == nil {
		if a, err := uplink(adapters, networks, config); err == nil {
			name = a.Alias
		}
	}
	var inTheWay, others []string
	for _, n := range networks {
		switch {
		case n.Name == config.HNSNetwork || n.Type == "NAT" || n.Type == "ICS" || n.Type == "Internal" || n.Type == "Private":
		case n.Adapter == "" || name == "":
			others = append(others, fmt.Sprintf("%s (%s)", n.Name, n.Type))
		case strings.EqualFold(n.Adapter, name):
			inTheWay = append(inTheWay, fmt.Sprintf("%s (%s)", n.Name, n.Type))
		}
	}
	const remedy = "remove what a former CNI plugin left: `Get-HnsNetwork | ? Name -eq NAME | Remove-HnsNetwork`"
	switch {
	case len(inTheWay) > 0:
		return s.failed(remedy, "adapter %s carries other networks of HNS: %s", name, strings.Join(inTheWay, ", "))
	case len(others) > 0:
		return s.unknown(remedy, "these networks of HNS do not say which adapter they are on: %s", strings.Join(others, ", "))
	}
	return s.ok("no other network of HNS is on the adapter")
}

// coalescing says whether a virtual switch joins received segments.
type coalescing interface {
	SoftwareRSC(ctx context.Context, virtualSwitch string) (bool, error)
}

// checkRSC: without it a pod's throughput was a quarter (antrea issue 2198).
func checkRSC(ctx context.Context, reader coalescing, service hnsReader, config Config) []Finding {
	const s = subject("rsc")
	networks, err := service.Networks(ctx)
	if err != nil && !errors.Is(err, errAbsent) {
		return s.unknown("run `Get-VMSwitch`", "HNS does not say whether there is a switch: %v", err)
	}
	if !slices.ContainsFunc(networks, func(n hns.Network) bool { return n.Name == config.HNSNetwork }) {
		return s.ok("there is no HNS network %s whose switch could be asked; the agent switches it on", config.HNSNetwork)
	}
	on, err := reader.SoftwareRSC(ctx, config.HNSNetwork)
	switch {
	case err != nil:
		return s.unknown("run `Get-VMSwitch "+config.HNSNetwork+" | fl *Rsc*`", "%v", err)
	case !on:
		return s.warning("run `Set-VMSwitch "+config.HNSNetwork+" -EnableSoftwareRsc $true`",
			"the switch does not coalesce received segments: pods receive slowly")
	}
	return s.ok("the switch coalesces received segments")
}

// checkResolvers: pods with dnsPolicy Default get the node's own servers.
func checkResolvers(reader adapterReader) []Finding {
	const s = subject("dns-servers")
	adapters, err := reader.Adapters()
	if err != nil {
		return s.unknown("run `Get-DnsClientServerAddress`", "%v", err)
	}
	var servers []string
	for _, a := range adapters {
		for _, server := range a.DNS.Servers {
			// what Windows invents
			if a.InHost() && a.Up && a.Kind != hostnet.Loopback && !strings.HasPrefix(server.String(), "fec0:0:0:ffff:") {
				servers = append(servers, fmt.Sprintf("%v (%s)", server, a.Alias))
			}
		}
	}
	if len(servers) == 0 {
		return s.warning("run `Set-DnsClientServerAddress`", "no adapter of this node has a DNS server: it cannot pull "+
			"images by name, and pods with dnsPolicy Default resolve nothing")
	}
	return s.ok("%s", shorten(servers, 5))
}
