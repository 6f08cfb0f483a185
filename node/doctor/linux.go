package doctor

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// device is a network interface.
type device struct {
	Name      string
	MTU       int
	Up        bool
	Loopback  bool
	Addresses []netip.Prefix
}

type deviceReader interface {
	Devices() ([]device, error)
}

// holderOf is the device that holds an address.
func holderOf(devices []device, address netip.Addr) (device, bool) {
	for _, d := range devices {
		if slices.ContainsFunc(d.Addresses, func(p netip.Prefix) bool { return p.Addr() == address }) {
			return d, true
		}
	}
	return device{}, false
}

// checkEncapAddress: tunnels end at an address of the node.
func checkEncapAddress(reader deviceReader, config Config) []Finding {
	const s = subject("encap-address")
	if !config.EncapAddress.IsValid() {
		return s.unknown("", "encap-address is not set")
	}
	devices, err := reader.Devices()
	if err != nil {
		return s.unknown("run `ip address`", "%v", err)
	}
	d, found := holderOf(devices, config.EncapAddress)
	switch {
	case !found:
		var names []string
		for _, d := range devices {
			if !d.Loopback && len(d.Addresses) > 0 {
				names = append(names, fmt.Sprintf("%s %v", d.Name, d.Addresses))
			}
		}
		return s.failed("set encap-address to the node's address on the network between nodes",
			"no interface has %v; there are: %s", config.EncapAddress, shorten(names, 10))
	case !d.Up:
		return s.failed("run `ip link set "+d.Name+" up`", "%v is on %s, which is down", config.EncapAddress, d.Name)
	case d.Loopback:
		return s.warning("see that the other nodes have a route to it", "%v is on %s", config.EncapAddress, d.Name)
	}
	return s.ok("%v is on %s", config.EncapAddress, d.Name)
}

func checkDeviceMTU(reader deviceReader, config Config) []Finding {
	const s = subject("mtu")
	devices, err := reader.Devices()
	if err != nil {
		return s.unknown("run `ip link`", "%v", err)
	}
	d, found := holderOf(devices, config.EncapAddress)
	if !found {
		return s.unknown("", "no interface has encap-address")
	}
	return assessMTU(d.Name, d.MTU, config)
}

// familyLister lists the kernel's families of generic netlink, without having it load one.
type familyLister interface {
	Families() ([]string, error)
}

// datapathFamily is how the kernel offers the datapath (include/uapi/linux/openvswitch.h, OVS_DATAPATH_FAMILY). It does
// so whether the datapath is a module or built in; a module that is built in may have no folder in /sys/module.
const datapathFamily = "ovs_datapath"

// checkDatapath: what switches the packets. root is the file system, from /.
func checkDatapath(root fs.FS, kernel familyLister, config Config) []Finding {
	const s = subject("datapath")
	if config.DatapathType == "netdev" {
		if _, err := fs.Stat(root, "dev/net/tun"); err != nil {
			return s.failed("run `modprobe tun`, and let ovs-vswitchd open /dev/net/tun",
				"the userspace datapath needs /dev/net/tun: %v", err)
		}
		return s.ok("userspace (netdev); it is slower than the kernel's")
	}
	families, err := kernel.Families()
	if err != nil {
		return s.unknown("run `lsmod`", "list the families of generic netlink: %v", err)
	}
	if slices.Contains(families, datapathFamily) {
		return s.ok("the kernel has Open vSwitch's datapath")
	}
	release := "this kernel"
	if text, err := fs.ReadFile(root, "proc/sys/kernel/osrelease"); err == nil {
		release = "kernel " + strings.TrimSpace(string(text))
	}
	return s.failed("run `modprobe openvswitch`, install the kernel's extra modules, or set datapath-type to netdev",
		"%s has not loaded the module openvswitch", release)
}

// checkGenevePort: the kernel itself holds the port for Open vSwitch, by the device genev_sys_6081; a
// device of another name means that somebody else receives the tunnels' packets.
func checkGenevePort(root fs.FS, config Config) []Finding {
	const s = subject("geneve-port")
	taken := false
	for _, table := range []string{"proc/net/udp", "proc/net/udp6"} {
		text, err := fs.ReadFile(root, table)
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(table, "6") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return s.unknown("run `ss -lun`", "%v", err)
		}
		ports, err := parseUDPTable(string(text))
		if err != nil {
			return s.unknown("run `ss -lun`", "%s: %v", table, err)
		}
		taken = taken || slices.Contains(ports, contract.TunnelPort)
	}
	_, err := fs.Stat(root, "sys/class/net/genev_sys_6081")
	switch {
	case err == nil:
		return s.ok("Open vSwitch has UDP %d", contract.TunnelPort)
	case taken:
		return s.failed("end the other user of the port: `ss -lunp` and `ip -d link show type geneve` name it",
			"UDP %d is taken, and not by Open vSwitch", contract.TunnelPort)
	case config.DatapathType == "netdev":
		return s.ok("UDP %d is not taken by others; the userspace datapath needs no socket", contract.TunnelPort)
	}
	return s.ok("UDP %d is free; Open vSwitch takes it with the first tunnel", contract.TunnelPort)
}

// parseUDPTable reads the local ports of /proc/net/udp or udp6, whose lines begin like
// "  427: 00000000:17C1 00000000:0000 07 …" under one line of titles.
func parseUDPTable(text string) ([]int, error) {
	var ports []int
	lines := bufio.NewScanner(strings.NewReader(text))
	for first := true; lines.Scan(); first = false {
		fields := strings.Fields(lines.Text())
		if first || len(fields) == 0 {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %q has no local address", lines.Text())
		}
		_, port, ok := strings.Cut(fields[1], ":")
		bytes, err := hex.DecodeString(port)
		if !ok || err != nil || len(bytes) != 2 {
			return nil, fmt.Errorf("%q is no address and port", fields[1])
		}
		ports = append(ports, int(bytes[0])<<8|int(bytes[1]))
	}
	return ports, lines.Err()
}

// checkOVNController: without it no new pod gets flows.
func checkOVNController(ctx context.Context, control daemonControl) []Finding {
	const s = subject("ovn-controller")
	status, err := control.Control(ctx, "ovn-controller", "connection-status")
	if errors.Is(err, errAbsent) {
		return s.failed("start ovn-controller, or set ovn-rundir to the folder of its control socket", "%v", err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return s.unknown("run this as root", "%v", err)
	}
	if err != nil {
		return s.unknown("run `ovn-appctl -t ovn-controller connection-status`", "%v", err)
	}
	version := ""
	if text, err := control.Control(ctx, "ovn-controller", "version"); err == nil {
		version, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	}
	if status = strings.TrimSpace(status); status != "connected" {
		return s.failed("see its log, and the check ovn-southbound", "%s is %s: it has no Southbound",
			strings.TrimSpace("ovn-controller "+version), status)
	}
	return assessOVNVersion(s, version)
}

func assessOVNVersion(s subject, version string) []Finding {
	words := strings.Fields(version)
	if len(words) == 0 {
		return s.ok("connected to the Southbound")
	}
	r, understood := parseRelease(words[len(words)-1])
	if understood && r.before(24, 3) {
		return s.warning("install OVN 25.03 or later", "connected to the Southbound, but %s is older than 24.03: Weft does "+
			"without what it lacks", version)
	}
	return s.ok("connected to the Southbound (%s)", version)
}

// checkReversePath: where the kernel is strict it drops what comes in by another interface than it would
// answer by. What pods send to the host comes by weft-mp0, and the host's route to them is there, too;
// so strictness does harm only where somebody moved that route.
func checkReversePath(root fs.FS) []Finding {
	const s = subject("reverse-path")
	strict := func(device string) (bool, error) {
		text, err := fs.ReadFile(root, "proc/sys/net/ipv4/conf/"+device+"/rp_filter")
		return strings.TrimSpace(string(text)) == "1", err
	}
	all, err := strict("all")
	if err != nil {
		return s.unknown("run `sysctl net.ipv4.conf.all.rp_filter`", "%v", err)
	}
	own, err := strict("weft-mp0")
	if errors.Is(err, fs.ErrNotExist) {
		return s.ok("the management port weft-mp0 is not there yet; the agent makes it")
	}
	if err != nil {
		return s.unknown("run `sysctl net.ipv4.conf.weft-mp0.rp_filter`", "%v", err)
	}
	routes, err := fs.ReadFile(root, "proc/net/route")
	if err != nil {
		return s.unknown("run `ip route`", "%v", err)
	}
	byPort, err := routesOf(string(routes), "weft-mp0")
	if err != nil {
		return s.unknown("run `ip route`", "%v", err)
	}
	if (all || own) && byPort == 0 {
		return s.warning("see whether the agent runs: it makes the routes; or set net.ipv4.conf.weft-mp0.rp_filter to 2",
			"rp_filter is strict and no IPv4 route leads to weft-mp0: the host drops what its pods send it")
	}
	return s.ok("%d IPv4 routes lead to weft-mp0", byPort)
}

// routesOf counts a device's routes in /proc/net/route.
func routesOf(text, device string) (int, error) {
	count := 0
	lines := bufio.NewScanner(strings.NewReader(text))
	for first := true; lines.Scan(); first = false {
		fields := strings.Fields(lines.Text())
		if first || len(fields) == 0 {
			continue
		}
		if len(fields) < 8 {
			return 0, fmt.Errorf("line %q is no route", lines.Text())
		}
		if _, err := strconv.ParseUint(fields[1], 16, 32); err != nil {
			return 0, fmt.Errorf("line %q is no route", lines.Text())
		}
		if fields[0] == device {
			count++
		}
	}
	return count, lines.Err()
}

// checkSocket: weft-cni finds the agent by a socket. Whether somebody listens there the agent's own
// check tells.
func checkSocket(root fs.FS, config Config, running bool) []Finding {
	const s = subject("cni-socket")
	info, err := fs.Stat(root, strings.TrimPrefix(config.CNISocket, "/"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && running:
		return s.failed("restart the agent; see that nothing cleans up its folder",
			"the agent runs, but %s is gone: no pod can be attached", config.CNISocket)
	case errors.Is(err, fs.ErrNotExist):
		return s.ok("%s is not there yet; the agent makes it", config.CNISocket)
	case err != nil:
		return s.unknown("run this as root", "%v", err)
	case info.Mode().Type() != fs.ModeSocket:
		return s.failed("take it away, or correct cni-socket", "%s is no socket", config.CNISocket)
	case info.Mode().Perm()&0o077 != 0:
		return s.failed("take the rights away (`chmod 600`): who may use it decides over the node's network",
			"%s may be used by others than root", config.CNISocket)
	}
	return s.ok("%s is there, for its owner only", config.CNISocket)
}

// Interfaces that other networks make, by the beginning of their names.
var foreignDevices = map[string]string{
	"flannel": "flannel", "cni0": "the plugin bridge", "cali": "Calico", "cilium_": "Cilium", "lxc_health": "Cilium",
	"weave": "Weave Net", "kube-bridge": "kube-router", "antrea-": "Antrea", "ovn-k8s-mp": "ovn-kubernetes",
	"ovn0":       "Kube-OVN",
	"kube-ipvs0": "kube-proxy (ipvs)",
}

// chainReader lists the chains of the packet filter by table, as "ip nat KUBE-SERVICES". Legacy tells
// that there are tables of the older kind, whose chains are not in the list.
type chainReader interface {
	Chains() (chains []string, legacy bool, err error)
}

// Chains that only kube-proxy makes; kubelet itself makes others of the prefix KUBE-.
var proxyChains = []string{"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-PROXY-", "KUBE-SVC-", "KUBE-SEP-"}

// checkLeftovers: another network's rules and interfaces outlive it until a restart.
func checkLeftovers(root fs.FS, chains chainReader) []Finding {
	const s = subject("leftovers")
	var findings []Finding
	entries, err := fs.ReadDir(root, "sys/class/net")
	if err != nil {
		findings = append(findings, s.unknown("run `ip link`", "%v", err)...)
	}
	var devices []string
	for _, entry := range entries {
		for prefix, of := range foreignDevices {
			if strings.HasPrefix(entry.Name(), prefix) {
				devices = append(devices, fmt.Sprintf("%s (%s)", entry.Name(), of))
			}
		}
	}
	if len(devices) > 0 {
		slices.Sort(devices)
		findings = append(findings, s.warning("remove that network, and restart the node", "interfaces of another network "+
			"are here: %s", shorten(devices, 8))...)
	}
	return append(findings, checkProxyChains(s, chains)...)
}

func checkProxyChains(s subject, chains chainReader) []Finding {
	names, legacy, err := chains.Chains()
	if err != nil {
		return s.unknown("run `nft list chains` as root", "the packet filter cannot be read: %v", err)
	}
	var proxy []string
	for _, name := range names {
		fields := strings.Fields(name)
		if slices.Contains(fields, "kube-proxy") || slices.ContainsFunc(proxyChains, func(prefix string) bool {
			return strings.HasPrefix(fields[len(fields)-1], prefix)
		}) {
			proxy = append(proxy, name)
		}
	}
	switch {
	case len(proxy) > 0:
		return s.warning("take kube-proxy off this node and run `kube-proxy --cleanup`, or restart the node: Weft serves "+
			"Services by itself", "kube-proxy's rules are in the packet filter: %s", shorten(proxy, 4))
	case legacy:
		return s.unknown("run `iptables-legacy-save | grep KUBE-`", "there are tables of the old iptables, which are not "+
			"looked into")
	}
	return s.ok("no rules of kube-proxy")
}
