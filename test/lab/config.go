// Package lab describes a real Kubernetes cluster on one machine, with OVN between its nodes, and
// runs it in namespaces of its own. `weftlab` is its command.
//
// [Config] is a user's choice, and a layout follows from it: machines with their numbers, addresses and
// files. Each kind of machine has a type that makes a spec for package machine of the layout: central, zoneCentral,
// linuxNode, windowsNode, hostMachine, control and outside. Of the central's programs, controlPlane has
// Kubernetes' and databases OVN's. The types certificates and manifests make the files that those need, and
// programs looks for the programs. [Start] writes everything to the state directory and starts the machines.
// [Lab] is a lab that runs, and [EmulatedWindows] what a node of it has in the place of Windows.
package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/weftnet/weft/test/hyperv"
)

// Where OVN's programs come from.
const (
	OVNPrefix = "prefix" // unpacked below bin/lab/ovn by `make ovn`
	OVNSystem = "system" // found in PATH
)

// Where the nodes' gateway routers have their addresses from.
const (
	GatewayHost = "host" // they share those of the nodes' hosts
	GatewayOwn  = "own"
)

// What the datapath of a Windows node is.
const (
	DatapathLinux  = "linux"  // Open vSwitch's userspace datapath, with features switched off
	DatapathHyperV = "hyperv" // the emulated extension of the Hyper-V switch
)

// Config is what a user chooses about a lab.
type Config struct {
	Name string `json:"name"`
	// Linux is the number of Linux nodes; they are called l1, l2 and so on.
	Linux int `json:"linux"`
	// Windows is the number of Windows nodes, w1, w2 and so on; see [windowsNode].
	Windows int `json:"windows,omitempty"`
	// WindowsDatapath is [DatapathHyperV], also when it is empty, or [DatapathLinux].
	WindowsDatapath string `json:"windowsDatapath,omitempty"`
	// WindowsFaults are the faults that the emulated driver of the Windows nodes has, as [hyperv.ParseFaults] reads
	// them. Empty: all.
	WindowsFaults string `json:"windowsFaults,omitempty"`
	// Hosts are servers with a systemd of their own, "c1,c2:trixie,l1" and so on, instead of nodes: see
	// [host]. OVN and weft are left out then: they are to be installed there.
	Hosts    string   `json:"hosts,omitempty"`
	Families Families `json:"families"`
	OVN      string   `json:"ovn"`
	// Gateway is [GatewayHost] or [GatewayOwn].
	Gateway string `json:"gateway"`
	// MTU is that of the lab's networks, in bytes; pods have GENEVE's share less.
	MTU         int `json:"mtu"`
	Controllers int `json:"controllers"`
	// Zones is the number of zones, each with OVN databases of its own; see [Config.ZoneOf]. 0: the lab has no zones.
	Zones int `json:"zones,omitempty"`
	// PodNetworks has the controller write PodNetworks of nodes in place of annotations of pods.
	PodNetworks bool `json:"podNetworks,omitempty"`
	// NoWeft leaves weft out: nodes stay NotReady. For work on the lab itself.
	NoWeft bool `json:"noWeft,omitempty"`
	// Bin is the directory of the project's programs, with lab/ below it.
	Bin string `json:"bin"`
}

// DefaultMTU is that of networks with jumbo frames. What is in fragments reaches no Service here: conntrack
// of the userspace datapath hands them on one by one, and of these but the first OVN 25.03 knows no port.
// Linux's and Hyper-V's datapaths hand on what was put together.
const DefaultMTU = 9000

// minMTU leaves pods what IPv6 demands.
const minMTU = 1280 + 78

// MaxNodes is what the lab's subnets and port names have room for.
const MaxNodes = 99

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// CheckName of a lab: it becomes a part of paths.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("--name %q: a lab's name is up to 32 lower-case letters, digits and '-', the first and last of "+
			"them no '-'", name)
	}
	return nil
}

// Validate reports every mistake at once.
func (c Config) Validate() error {
	errs := []error{CheckName(c.Name)}
	hosts, err := c.hostList()
	errs = append(errs, err)
	if c.Hosts != "" && c.Linux > 0 {
		errs = append(errs, errors.New("--hosts: a lab's Linux nodes are either hosts or not; leave out --linux"))
	}
	if c.Hosts != "" && c.Gateway == GatewayOwn {
		errs = append(errs, errors.New("--gateway own: a host's interface to the network outside has its address; leave out "+
			"--gateway, or --hosts"))
	}
	if c.Hosts == "" && c.Linux < 1 || c.Linux > MaxNodes {
		errs = append(errs, fmt.Errorf("--linux %d: a lab has 1 to %d nodes", c.Linux, MaxNodes))
	}
	if c.Windows < 0 || c.Windows > MaxNodes-c.Linux-len(hosts) {
		errs = append(errs, fmt.Errorf("--windows %d: a lab has up to %d nodes in all", c.Windows, MaxNodes))
	}
	if c.Windows > 0 && c.NoWeft && c.Hosts == "" {
		errs = append(errs, errors.New("--windows: a Windows node is nothing without weft"))
	}
	if !slices.Contains([]string{"", DatapathLinux, DatapathHyperV}, c.WindowsDatapath) {
		errs = append(errs, fmt.Errorf("--windows-datapath %q is neither linux nor hyperv", c.WindowsDatapath))
	}
	if _, err := hyperv.ParseFaults(c.WindowsFaults); err != nil {
		errs = append(errs, fmt.Errorf("--windows-faults: %w", err))
	}
	if c.WindowsFaults != "" && !c.emulated() {
		errs = append(errs, errors.New("--windows-faults: only the emulated extension has them; leave out "+
			"--windows-datapath linux"))
	}
	if !slices.Contains([]Families{IPv4, IPv6, Dual}, c.Families) {
		errs = append(errs, fmt.Errorf("families %q is none of ipv4, ipv6 and dual", c.Families))
	}
	if c.OVN != OVNPrefix && c.OVN != OVNSystem {
		errs = append(errs, fmt.Errorf("--ovn %q is neither prefix nor system", c.OVN))
	}
	if c.Gateway != GatewayHost && c.Gateway != GatewayOwn {
		errs = append(errs, fmt.Errorf("--gateway %q is neither host nor own", c.Gateway))
	}
	if c.MTU < minMTU || c.MTU > DefaultMTU {
		errs = append(errs, fmt.Errorf("--mtu %d: the lab's networks have %d to %d bytes", c.MTU, minMTU, DefaultMTU))
	}
	if c.Controllers < 1 || c.Controllers > 5 {
		errs = append(errs, fmt.Errorf("--controllers %d: a lab has 1 to 5 of them", c.Controllers))
	}
	if c.Zones < 0 || c.Zones > MaxZones {
		errs = append(errs, fmt.Errorf("--zones %d: a lab has up to %d zones, or none with 0", c.Zones, MaxZones))
	}
	if c.Zones > 0 && c.Hosts != "" {
		errs = append(errs, errors.New("--zones: a lab of hosts has none, since OVN's databases are Ansible's to install; "+
			"leave out --zones, or --hosts"))
	}
	return errors.Join(errs...)
}

// emulated tells whether Windows nodes have the emulated extension.
func (c Config) emulated() bool { return c.WindowsDatapath != DatapathLinux }

// Nodes are the names of the cluster's nodes, Linux ones first.
func (c Config) Nodes() []string { return append(c.LinuxNodes(), c.WindowsNodes()...) }

// LinuxNodes are the names of the Linux nodes.
func (c Config) LinuxNodes() []string { return numbered("l", c.Linux) }

// WindowsNodes are the names of the Windows nodes.
func (c Config) WindowsNodes() []string { return numbered("w", c.Windows) }

func numbered(letter string, count int) []string {
	var names []string
	for i := 1; i <= count; i++ {
		names = append(names, fmt.Sprintf("%s%d", letter, i))
	}
	return names
}

// Machines that are no nodes.
const (
	// Central runs the control plane. [Config.Centrals] are all machines with OVN's databases.
	Central = "central"
	// Outside is a host that knows nothing of the cluster but its nodes.
	Outside = "outside"
	// Control is where Ansible runs, in a lab with hosts.
	Control = "control"
)

// Machines are the names of all machines.
func (c Config) Machines() []string {
	machines := slices.Concat(c.Centrals(), c.Nodes(), c.HostNames())
	if c.Hosts != "" {
		machines = append(machines, Control)
	}
	return append(machines, Outside)
}

// StateDir is where a lab of that name, which is a valid one, keeps its state.
func StateDir(name string) string {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		base = "/var/tmp"
	}
	return filepath.Join(base, "weftlab", name)
}
