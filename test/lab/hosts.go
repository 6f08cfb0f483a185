package lab

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weftnet/weft/test/lab/machine"
)

// host is a server with a systemd of its own, on which nothing of OVN or weft is installed: that is
// Ansible's work.
type host struct {
	name, release string
	// kernel: it has one of its own, that of its release; see [kernelHost].
	kernel bool
	// number is its own in the lab's networks.
	number int
}

// Releases of Debian that a host can have; the first one is the usual.
var releases = []string{"bookworm", "trixie"}

// hostName: c is a central, which runs OVN's databases, l a Linux node.
var hostName = regexp.MustCompile(`^[cl][1-9][0-9]?$`)

// hostList reads [Config.Hosts].
func (c Config) hostList() ([]host, error) {
	if c.Hosts == "" {
		return nil, nil
	}
	var hosts []host
	var errs []error
	seen := map[string]bool{}
	for i, text := range strings.Split(c.Hosts, ",") {
		text, kernel := strings.CutSuffix(text, kernelMark)
		name, release, named := strings.Cut(text, ":")
		if !named {
			release = releases[0]
		}
		if !hostName.MatchString(name) {
			errs = append(errs, fmt.Errorf("--hosts %q: %q is no host's name; they are c1, c2, … for centrals and l1, l2, … "+
				"for Linux nodes", c.Hosts, name))
		}
		if !slices.Contains(releases, release) {
			errs = append(errs, fmt.Errorf("--hosts %q: %s has the release %q; there are %s", c.Hosts, name, release,
				strings.Join(releases, " and ")))
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("--hosts %q: there are two hosts %s", c.Hosts, name))
		}
		seen[name] = true
		hosts = append(hosts, host{name: name, release: release, kernel: kernel, number: firstNode + i})
	}
	if len(hosts) > MaxNodes {
		errs = append(errs, fmt.Errorf("--hosts: a lab has up to %d of them", MaxNodes))
	}
	return hosts, errors.Join(errs...)
}

// hosts of a valid configuration.
func (c Config) hosts() []host {
	hosts, err := c.hostList()
	if err != nil {
		panic(err)
	}
	return hosts
}

// HostNames are the names of the hosts.
func (c Config) HostNames() []string {
	var names []string
	for _, h := range c.hosts() {
		names = append(names, h.name)
	}
	return names
}

// hostNamed is the host of that name, if there is one.
func (c Config) hostNamed(name string) (h host, found bool) {
	hosts := c.hosts()
	i := slices.IndexFunc(hosts, func(h host) bool { return h.name == name })
	if i < 0 {
		return host{}, false
	}
	return hosts[i], true
}

func (h host) isNode() bool { return strings.HasPrefix(h.name, "l") }

// Registered are the names of all nodes that Kubernetes is to know.
func (c Config) Registered() []string {
	names := c.Nodes()
	for _, h := range c.hosts() {
		if h.isNode() {
			names = append(names, h.name)
		}
	}
	return names
}

// systemComponent is the one component of a host.
const systemComponent = "system"

// systemPID is the file, in the host's machine, with the process ID of systemd-nspawn.
const systemPID = "/run/system.pid"

// hostMachine is the machine around a host's system. That shares the machine's network, and everything
// that it writes is on the machine's disk, a directory below the lab's.
type hostMachine struct {
	layout
	host
}

func (h hostMachine) spec() *machine.Spec {
	spec := h.newSpec(h.name)
	spec.Unified = true
	spec.Interfaces = []machine.Interface{h.networkInterface("eth0", management, h.number)}
	on, router := management, centralNumber
	if h.isNode() {
		spec.Interfaces = append(spec.Interfaces, h.externalInterface(h.number))
		on, router = external, routerNumber
	}
	// A server that starts anew has the MAC addresses that its neighbours remember.
	for i := range spec.Interfaces {
		spec.Interfaces[i].MAC = fmt.Sprintf("02:00:ac:%02x:00:%02x", 0x1d+i, h.number)
	}
	spec.Routes = h.defaultRoutes(h.addresses.of(on, router))
	disk := machine.Overlay{Lower: h.files.hosts("base/" + h.release), Upper: h.disk() + "/root", Target: h.root(),
		Files: h.diskFiles()}
	if h.kernel {
		own := kernelHost{h, spec}
		disk.Files = append(disk.Files, own.kernelFiles()...) // which set up the network that boot takes off the machine
		own.boot()
	} else {
		spec.Components = []machine.Component{h.system()}
	}
	spec.Overlays = []machine.Overlay{disk}
	return spec
}

func (h hostMachine) disk() string { return h.files.hostDisk(h.name) }

// root is where the host's file system is mounted.
func (h hostMachine) root() string { return h.files.machine(h.name, "root") }

// system boots the host's own system. It serves when one can log in and the last unit of the boot has started.
func (h hostMachine) system() machine.Component {
	command := []string{"sh", "-c", `echo $$ > ` + systemPID + ` && exec "$0" "$@"`, h.files.hosts("nspawn/systemd-nspawn"),
		"--boot", "--directory=" + h.root(), "--machine=" + h.name, "--hostname=" + h.name,
		// It is no matter of the systemd of the machine below, if that has one.
		"--register=no", "--keep-unit", "--settings=no",
		"--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only",
		// What an OVN node does to its network, and containerd to its containers.
		"--capability=CAP_NET_ADMIN,CAP_IPC_LOCK,CAP_BPF,CAP_PERFMON,CAP_SYS_NICE",
		"--bind=/dev/net/tun",
	}
	if h.isNode() {
		command = append(command, hostNode{h}.binds()...)
	}
	return machine.Component{
		Name:    systemComponent,
		Command: command,
		Env:     []string{"SYSTEMD_LOG_LEVEL=warning", "SYSTEMD_SECCOMP=0", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network"},
		Ready:   machine.Probe{TCP: hostPort(h.addresses.first(management, h.number), 22)},
		Finish: [][]string{{"sh", "-c",
			enterSystem + ` sh -c 'until case $(systemctl is-system-running) in running | degraded) ;; *) false ;; esac; do sleep 0.1; done'`}},
		Vital: true,
	}
}

// enterSystem is the beginning of a shell's command in a host's system. Its first process is the only
// child of systemd-nspawn.
const enterSystem = `pid=$(cat ` + systemPID + `) && nsenter --all --target $(cat /proc/$pid/task/*/children)`

// diskFiles are what distinguishes a new host from its base.
func (h hostMachine) diskFiles() []machine.File {
	f := h.files
	common := []machine.File{
		{Path: "/etc/hostname", Content: h.name + "\n"},
		{Path: "/etc/hosts", Content: h.etcHosts()},
		{Path: "/etc/apt/sources.list.d/lab.list", Content: fmt.Sprintf("deb [trusted=yes] http://%s/%s ./\n",
			bracketed(h.addresses.first(management, controlNumber)), h.release)},
		{Path: "/etc/ssh/authorized_keys", Source: f.ssh(controlKey + ".pub")},
		{Path: "/etc/ssh/ssh_host_ed25519_key", Source: f.ssh(h.name), Mode: 0o600},
		{Path: "/etc/ssh/ssh_host_ed25519_key.pub", Source: f.ssh(h.name + ".pub")},
	}
	if h.isNode() {
		return append(common, hostNode{h}.nodeFiles()...)
	}
	return common
}
