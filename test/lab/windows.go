package lab

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/weftnet/weft/node/nodetest/hyperv"
	"github.com/weftnet/weft/test/hns"
	"github.com/weftnet/weft/test/lab/machine"
	"github.com/weftnet/weft/test/lab/ofctl"
	"github.com/weftnet/weft/test/pktmon"
)

// Of a Windows node. Its adapter has the node's underlay address as any host's has, until the agent
// makes an HNS network on it: then the management vNIC has it, which the agent gives a name, and the OVS bridge bears
// that name.
const (
	adapter       = "Ethernet"
	adapterBridge = "weft-uplink"
	hnsAddress    = "127.0.0.1:19798"
	hnsControl    = "/run/hns/control.sock"
	ovsdbPort     = 16640
	openFlowPort  = 16653
	controlPort   = 16654
	tunnelPort    = 16642
	winePrefix    = "/var/lib/wine"
	wine          = "/usr/lib/wine/wine64"
	wineserver    = "/usr/lib/wine/wineserver64"
	wineReady     = "/run/wine-ready"
	faketime      = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
	hypervSocket  = "/run/hyperv/netlink.sock"
	hypervControl = "/run/hyperv/control.sock"
	hypervRecord  = "/var/lib/hyperv/executed"
	hypervSwitch  = "/var/lib/hyperv/switch.json" // how HNS has the switch
	hypervBridge  = "br-hyperv"
	// agentKeys of a Windows node beside hosts has what Ansible gives those: the address of the Southbound, and the files
	// of the agent's certificate. The agent starts when it is there.
	agentKeys = "/var/lib/weft/weft.yaml"
)

// gatewayNumber is the last part of the addresses of a Windows node's gateway router that has addresses of
// its own, on the node's only network, the underlay.
func gatewayNumber(number int) int { return 100 + number }

// windowsNode has what a Windows node has, as far as Linux allows: weft.exe and weft-cni.exe run under
// Wine, over an emulated HNS; Open vSwitch does only what it can do on Hyper-V; and there is no
// ovn-controller. Containers are Linux ones.
type windowsNode struct {
	nodeMachine
	emulated bool   // the extension of the Hyper-V switch
	faults   string // of the extension's driver, as [Config.WindowsFaults] has them
}

func (n windowsNode) spec() *machine.Spec {
	f := n.files
	spec := n.newNodeSpec("/opt/hcs/runc")
	uplink := n.networkInterface(adapter, n.addresses.tunnels(), n.number)
	uplink.MAC = n.underlayMAC()
	spec.Interfaces = []machine.Interface{n.networkInterface("eth0", management, n.number), uplink}
	spec.Sysctls = append(spec.Sysctls, "net.ipv4.ip_local_port_range=49152 65535") // as Windows gives them
	spec.Binds = append(spec.Binds, machine.Bind{Source: f.machine(n.name, "hns"), Target: "/var/lib/hns", Create: true},
		machine.Bind{Source: f.machine(n.name, "hyperv"), Target: path.Dir(hypervRecord), Create: true},
		machine.Bind{Source: f.machine(n.name, "weft"), Target: path.Dir(agentKeys), Create: true})
	spec.Overlays = []machine.Overlay{{Lower: f.lab("wine/prefix"), Upper: f.machine(n.name, "wine"), Target: winePrefix}}
	spec.Env = append(spec.Env, wineEnv()...)
	spec.Files = append(spec.Files,
		machine.File{Path: agentConfig, Content: n.gatewayKeys(underlay, gatewayNumber(n.number), centralNumber)},
		script("/opt/cni/bin/weft-cni", f.bin+"/weftlab hcs-cni "+hnsControl+" "+wine+" "+f.bin+"/weft-cni.exe"),
		script("/opt/hcs/runc", f.bin+"/weftlab hcs-runc "+hnsControl+` runc "$@"`))
	spec.Setup = append(spec.Setup, []string{"mkdir", "-p", path.Dir(hnsControl)},
		[]string{"cp", f.lab("pktmon.exe"), winePrefix + "/drive_c/windows/system32/"},
		[]string{"sh", "-c", `[ -e "$0" ] || echo +0s > "$0"`, f.clock(n.name)})
	spec.Components = append(n.openVSwitch(), n.wineserver(), n.hns(), packetMonitor(f))
	spec.Components = append(spec.Components, n.kubernetes()...)
	agent := n.agent()
	spec.Components = append(spec.Components, agent)
	spec.Files = append(spec.Files, doctor(agent))
	return spec
}

// doctor examines the node with its agent's keys.
func doctor(agent machine.Component) machine.File {
	var command strings.Builder
	for _, word := range agent.Command {
		if word == "node" {
			word = "doctor"
		}
		command.WriteString("'" + word + "' ") // no word has a quote
	}
	return script("/opt/weft/doctor", command.String()+`"$@"`)
}

func script(path, command string) machine.File {
	return machine.File{Path: path, Content: "#!/bin/sh\nexec " + command + "\n", Mode: 0o755}
}

// wineEnv is the environment of all that runs under Wine on a machine.
func wineEnv() []string {
	return []string{
		"WINEPREFIX=" + winePrefix, "WINEARCH=win64", "WINEDEBUG=-all", "WINEDLLOVERRIDES=" + hns.WineOverrides,
		"HOME=/run/tmp", "HNSEMU_ADDR=" + hnsAddress,
	}
}

// windowsPath is how a program under Wine names a file of the machine.
func windowsPath(path string) string { return `Z:` + strings.ReplaceAll(path, "/", `\`) }

// openVSwitch is the node's. On Windows its sockets are named pipes; here the agent reaches them on
// loopback.
func (n windowsNode) openVSwitch() []machine.Component {
	openFlow, control := fmt.Sprintf("127.0.0.1:%d", openFlowPort), fmt.Sprintf("127.0.0.1:%d", controlPort)
	components := []machine.Component{n.ovsDatabase(fmt.Sprintf("--remote=ptcp:%d:127.0.0.1", ovsdbPort))}
	if n.emulated {
		components = append(components, n.emulatedDatapath()...)
	} else {
		components = append(components, n.linuxDatapath())
	}
	return append(components, []machine.Component{
		{
			Name:    "openflow-relay",
			Command: []string{n.files.bin + "/weftlab", "relay", openFlow, "/run/openvswitch/br-int.mgmt"},
			Ready:   machine.Probe{TCP: openFlow},
		},
		{
			Name:    "control-relay",
			Command: []string{n.files.bin + "/weftlab", "relay", control, "/run/openvswitch/ovs-vswitchd.*.ctl"},
			Ready:   machine.Probe{TCP: control},
		},
		{
			Name:    "ofctl-relay",
			Command: []string{n.files.bin + "/weftlab", "ofctl-relay"},
			Ready:   machine.Probe{TCP: ofctl.Address},
		},
	}...)
}

// linuxDatapath is an ovs-vswitchd whose own datapath has not what Hyper-V's has not.
func (n windowsNode) linuxDatapath() machine.Component {
	neighbours := tunnelEndpoint{n.layout, n.node, adapterBridge}.setNeighbours()
	vswitchd := vswitchd()
	vswitchd.Finish = append(withoutFeatures(), neighbours)
	// A bridge that is made again, as after the loss of the HNS network, has forgotten them.
	vswitchd.Repeat, vswitchd.RepeatEvery = [][]string{neighbours}, 20*time.Second
	return vswitchd
}

// emulatedDatapath is the driver and an ovs-vswitchd over it.
func (n windowsNode) emulatedDatapath() []machine.Component {
	f := n.files
	vswitchd := vswitchd()
	vswitchd.Env = []string{"LD_PRELOAD=" + f.lab("hyperv-netlink.so"), "HYPERV_SOCKET=" + hypervSocket}
	// The vNICs of HNS are there when Windows has booted.
	vswitchd.WaitFor = append(vswitchd.WaitFor, machine.Probe{Unix: hypervControl}, machine.Probe{Unix: hnsControl})
	vswitchd.Finish = [][]string{withoutZeroSNAT}
	vswitchd.Repeat, vswitchd.RepeatEvery = [][]string{withoutZeroSNAT}, 2*time.Second
	return []machine.Component{{
		Name: "hyperv",
		Command: []string{f.lab("hypervemu"), "serve", "--socket", hypervSocket, "--control", hypervControl, "--adapter",
			adapter, "--record", hypervRecord, "--switch", hypervSwitch, "--faults", cmp.Or(n.faults, "all")},
		Ready: machine.Probe{Unix: hypervControl},
	}, vswitchd}
}

// withoutZeroSNAT says that the datapath has no SNAT to zeros: ovs-vswitchd of Windows knows it by itself, and the one
// of Linux takes it for there without a question. ovn-controller reads it in the database, which is written when
// ovs-vswitchd reads what is to be.
var withoutZeroSNAT = []string{"sh", "-ec", `
	datapath=$(ovs-vsctl --no-wait --if-exists get Open_vSwitch . datapaths:system)
	[ "$datapath" ] && ovs-vsctl --no-wait get Datapath "$datapath" capabilities:ct_zero_snat 2> /dev/null | grep -q true || exit 0
	ovs-appctl --timeout=20 dpif/set-dp-features "$(ovs-vsctl --no-wait list-br | head -n 1)" ct_zero_snat false
	ovs-vsctl --no-wait set Datapath "$datapath" capabilities:ct_zero_snat=false`}

// withoutFeatures are the commands that take from the datapath what the one of Hyper-V has not, which has no
// wildcards in its flows either: each connection has flows of its own. All bridges share one datapath, which is there
// as long as one of them is: this one is from the start. After a restart of ovs-vswitchd the others are there too, and
// each keeps what it has found out of the datapath until it is told.
func withoutFeatures() [][]string {
	commands := [][]string{{"ovs-vsctl", "--timeout=20", "--may-exist", "add-br", hypervBridge, "--", "set", "bridge",
		hypervBridge, "datapath_type=netdev"}}
	for _, feature := range hyperv.Features {
		commands = append(commands,
			eventually("sh", "-ec", `for bridge in $(ovs-vsctl --timeout=20 list-br); do ovs-appctl --timeout=20 dpif/set-dp-features "$bridge" "$0" "$1"; done`,
				feature.Name, feature.Value))
	}
	return append(commands, []string{"ovs-appctl", "--timeout=20", "upcall/disable-megaflows"})
}

// wineserver is the kernel, as it were, of all programs under Wine on the machine; one that has lost
// it is of no more use, and neither are its pipes. Its clock is theirs.
func (n windowsNode) wineserver() machine.Component {
	return machine.Component{
		Name: "wineserver",
		Prepare: [][]string{{"sh", "-c", `
			for exe in /proc/[0-9]*/exe; do
				[ "$(readlink $exe)" != ` + wine + ` ] || { process=${exe%/exe}; kill -KILL ${process#/proc/}; }
			done
			rm -rf ` + wineReady + ` "$WINEPREFIX/wineserver" "$TMPDIR"/wine-*`}},
		Command: []string{wineserver, "--foreground", "--persistent"},
		Env: []string{"LD_PRELOAD=" + faketime, "FAKETIME_TIMESTAMP_FILE=" + n.files.clock(n.name),
			"FAKETIME_CACHE_DURATION=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1"},
		// A program that comes too early would start a server of its own. The prefix's file wineserver
		// names the directory of the sockets.
		Finish: [][]string{{"sh", "-c", `
			until ls "$TMPDIR/$(cat "$WINEPREFIX/wineserver")"/server-*/socket; do sleep 0.02; done > /dev/null 2>&1
			touch ` + wineReady}},
	}
}

// packetMonitor is the driver of pktmon.exe.
func packetMonitor(f files) machine.Component {
	return machine.Component{Name: "pktmon", Command: []string{f.bin + "/weftlab", "pktmon"},
		Ready: machine.Probe{TCP: pktmon.Address}}
}

func (n windowsNode) hns() machine.Component {
	f := n.files
	command := []string{f.lab("hnsemu"), "serve", "--rpc", hnsAddress, "--control", hnsControl, "--state",
		"/var/lib/hns/state.json", "--data-plane"}
	if n.emulated {
		command = append(command, "--driver", hypervControl, "--driver-file", hypervSwitch)
	}
	return machine.Component{
		Name:    "hns",
		Command: command,
		Ready:   machine.Probe{Unix: hnsControl},
		// What it remembers of pods is of the time before the machine started.
		Finish: [][]string{{"sh", "-ec", `[ -e "$1.booted" ] || { "$0" ctl --control "$1" reboot; touch "$1.booted"; }`,
			f.lab("hnsemu"), hnsControl}},
	}
}

// kubernetes is as on Linux nodes, once the policy is there that holds the label of the system.
func (n windowsNode) kubernetes() []machine.Component {
	components := n.nodeMachine.kubernetes()
	kubelet := &components[len(components)-1]
	kubelet.WaitFor = append(kubelet.WaitFor, machine.Probe{Path: n.files.manifestsApplied()})
	return components
}

func (n windowsNode) agent() machine.Component {
	f := n.files
	metrics := fmt.Sprintf("127.0.0.1:%d", agentPort)
	component := machine.Component{
		Name: "weft-node",
		Command: []string{wine, f.bin + "/weft.exe", "node", "--kubeconfig=" + windowsPath(f.kubeconfig(n.name)),
			"--node-name=" + n.name,
			fmt.Sprintf("--ovs-database=tcp:127.0.0.1:%d", ovsdbPort),
			fmt.Sprintf("--ovs-openflow=tcp:127.0.0.1:%d", openFlowPort),
			fmt.Sprintf("--ovs-control=tcp:127.0.0.1:%d", controlPort),
			"--ovs-ofctl=" + windowsPath(f.lab("ovs-ofctl.exe")), "--datapath-type=" + n.datapathType(),
			"--encap-address=" + n.addresses.first(n.addresses.tunnels(), n.number).String(),
			"--chassis=hosted", "--tunnel-address=" + hostPort(n.addresses.first(management, n.number), tunnelPort),
			"--conntrack-lookup=" + n.conntrackLookup(), "--capture=all",
			"--cni-conf-dir=" + windowsPath("/etc/cni/net.d"), "--cni-cache-dir=" + windowsPath("/var/lib/cni"),
			"--cni-socket-prime",
			"--metrics-address=" + metrics},
		WaitFor: []machine.Probe{{Path: wineReady}, {Unix: hnsControl}, {TCP: fmt.Sprintf("127.0.0.1:%d", ovsdbPort)},
			n.apiReady()},
		Ready: machine.Probe{URL: "http://" + metrics + "/healthz"},
	}
	component.WaitFor = append(component.WaitFor, n.zonesLabelled()...)
	if n.hasHosts() {
		component.Command = append(component.Command, "--config="+windowsPath(agentKeys))
		component.WaitFor = append(component.WaitFor, machine.Probe{Path: agentKeys})
		return component
	}
	component.Command = append(component.Command, "--config="+windowsPath(agentConfig),
		"--ovn-southbound="+n.addresses.southbound(n.zone), "--tunnel-ca="+windowsPath(f.pki("ca.crt")),
		"--tunnel-certificate="+windowsPath(f.pki(agentPair(n.name)+".crt")),
		"--tunnel-private-key="+windowsPath(f.pki(agentPair(n.name)+".key")))
	return component
}

// conntrackLookup is left to the agent, which has to find out what the emulated driver does. The Linux datapath needs
// no lookup, so there it must not depend on a probe that fails.
func (n windowsNode) conntrackLookup() string {
	if n.emulated {
		return "auto"
	}
	return "false"
}

// datapathType is what Open vSwitch calls it.
func (n windowsNode) datapathType() string {
	if n.emulated {
		return "system"
	}
	return "netdev"
}
