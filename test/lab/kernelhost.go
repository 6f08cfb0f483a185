package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/test/lab/machine"
)

// kernels of the releases of Debian: `make lab-kernels` compiles them for user-mode Linux.
var kernels = map[string]string{"bookworm": "6.1", "trixie": "6.12"}

const (
	// kernelMark follows a host's release, or its name, where the host has a kernel of its own.
	kernelMark = "+kernel"
	// kernelMemory bounds a host with a kernel of its own. It takes what it uses, and gives nothing back.
	kernelMemory = "2G"
	// kernelDisk bounds its disk, which takes what was written to it.
	kernelDisk = "16G"

	// sharedDir is all that such a host sees of its machine's files, there and in the host itself; below it are the lab's
	// parts, and bootedFile exists when the last unit of the boot has started.
	sharedDir   = "/run/lab"
	sharedParts = sharedDir + "/parts"
	bootedFile  = sharedDir + "/booted"

	hostNetworkScript = "/usr/local/sbin/lab-network"
	umlDir            = "/run/uml"
	mconsole          = umlDir + "/" + systemComponent + "/mconsole"
)

// kernelHost is a host that has a kernel of its own: user-mode Linux, a program that takes the interfaces' frames as
// they come. The host's disk is an image.
type kernelHost struct {
	hostMachine
	// machine is at first as that of a host without a kernel of its own.
	machine *machine.Spec
}

// boot changes the machine to one that runs the kernel, and leaves its network to the host.
func (h kernelHost) boot() {
	spec := h.machine
	for i := range spec.Interfaces {
		spec.Interfaces[i].Addresses, spec.Interfaces[i].Switched = nil, true
	}
	spec.Routes, spec.Unified = nil, false
	spec.Binds = append(spec.Binds, machine.Bind{Source: h.files.lab(""), Target: sharedParts})
	spec.Components = []machine.Component{h.system()}
}

// system boots the host's own system on its kernel.
func (h kernelHost) system() machine.Component {
	disk := h.disk()
	command := []string{"/usr/bin/python3", "-c", runKernel, strconv.Itoa(h.number), h.files.kernel(h.release),
		"mem=" + kernelMemory, "umid=" + systemComponent, "uml_dir=" + umlDir,
		"hostfs=" + sharedDir,
		"ubd0=" + diskImage(disk), "root=/dev/ubda", "rootfstype=ext4", "rw", "init=/lib/systemd/systemd",
		"systemd.log_level=warning", "systemd.show_status=false", "loglevel=5",
	}
	for i, on := range h.machine.Interfaces {
		command = append(command, fmt.Sprintf("vec%d:transport=raw,ifname=%s,mac=%s,mtu=%d", i, on.Name, on.MAC, on.MTU))
	}
	return machine.Component{
		Name: systemComponent,
		Prepare: [][]string{{"rm", "-rf", bootedFile, umlDir}, {"sh", "-ec", makeDisk, h.root(), disk,
			diskImage(disk), kernelDisk}},
		Command: command,
		Env:     []string{"TMPDIR=/dev/shm"}, // its memory is a file there, without a name
		Ready:   machine.Probe{Path: bootedFile},
		// The first boot has taken more than a minute. A kernel that is killed leaves processes that have its disk.
		Patience: 5 * time.Minute,
		Stop:     []string{"/usr/bin/python3", "-c", pressKeys, mconsole},
		Vital:    true,
	}
}

// makeDisk makes the image of a new host's disk from its root file system, $0, and from the folders in $1 that
// [hostNode.binds] would show.
const makeDisk = `[ ! -e "$2" ] || exit 0
mkdir -p "$1/containerd" "$1/kubelet" "$0/var/lib/containerd" "$0/var/lib/kubelet"
exec unshare --mount sh -ec '
mount --bind "$1/containerd" "$0/var/lib/containerd"
mount --bind "$1/kubelet" "$0/var/lib/kubelet"
mkfs.ext4 -q -F -d "$0" -E lazy_itable_init=1,lazy_journal_init=1 "$2.new" "$3"
mv "$2.new" "$2"' "$0" "$1" "$2" "$3"`

// runKernel runs a kernel with its options on one processor, which the host's number, the first argument, chooses. Each
// system call and page fault of its programs is a switch between two processes that wait for each other. Between two
// processors that takes four times as long.
//
// The kernel starts its own name when the host's system has rebooted. It is to end instead, and not with status 0: then
// the machine starts anew. So it runs by the name of a program that fails.
const runKernel = `import os, sys
number, kernel, options = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
processors = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, [processors[number % len(processors)]])
os.execv(kernel, ["/bin/false"] + options)`

// pressKeys has the host's system end by Ctrl, Alt and Del: a command to its management console, after a magic number,
// the version of the protocol and the command's length.
const pressKeys = `import socket, struct, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(struct.pack("=III", 0xcafebabe, 2, 3) + b"cad", sys.argv[1])`

func diskImage(disk string) string { return disk + "/root.ext4" }

// kernelFiles are those that only such a host has. It does for itself what is done for others from outside.
func (h kernelHost) kernelFiles() []machine.File {
	f, spec := h.files, h.machine
	parts := strings.ReplaceAll(f.lab(""), " ", `\040`)
	// The kubelet wants to know a speed, and user-mode Linux tells none.
	network := `#!/bin/sh -e
{ sed '/^$/d' /proc/cpuinfo; printf 'cpu MHz\t\t: 1000.000\n\n'; } > /run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo
`
	for i, on := range spec.Interfaces {
		network += fmt.Sprintf("ip link set vec%d name %s\n", i, on.Name)
		for _, address := range on.Addresses {
			network += fmt.Sprintf("ip address add %s dev %s\n", address, on.Name)
		}
		network += fmt.Sprintf("ip link set %s up\n", on.Name)
	}
	for _, r := range spec.Routes {
		network += fmt.Sprintf("ip route replace %s via %s\n", r.Destination, r.Via)
	}
	files := []machine.File{
		{Path: "/etc/fstab", Content: "none " + sharedDir + " hostfs defaults 0 0\n" + sharedParts + " " + parts +
			" none bind,ro 0 0\n"},
		{Path: "/etc/sysctl.d/90-lab.conf", Content: strings.Join(spec.Sysctls, "\n") + "\n"},
		// The kernel's configuration is a small one, with fewer process IDs than Debian asks for.
		{Path: "/etc/sysctl.d/50-pid-max.conf", Content: "/dev/null", Mode: os.ModeSymlink},
		// It has all its parts built in, and no list of them.
		{Path: "/etc/modprobe.d/lab.conf", Content: "install openvswitch /bin/true\ninstall geneve /bin/true\ninstall " +
			"br_netfilter /bin/true\ninstall overlay /bin/true\n"},
		{Path: unitDir + "getty@tty1.service", Content: "/dev/null", Mode: os.ModeSymlink},
		{Path: hostNetworkScript, Content: network, Mode: 0o755},
		{Path: unitDir + "lab-network.service", Content: networkUnit},
		{Path: unitDir + "lab-booted.service", Content: bootedUnit},
		enabled("lab-network.service", unitDir+"lab-network.service"),
		enabled("lab-booted.service", unitDir+"lab-booted.service"),
	}
	if h.isNode() {
		files = append(files, machine.File{Path: "/usr/bin/kubelet", Content: f.hyperkube(), Mode: os.ModeSymlink})
	}
	return files
}

const networkUnit = `[Unit]
Description=Addresses and routes of the lab's networks
Before=network-pre.target network.target network-online.target
Wants=network-pre.target network.target
After=local-fs.target systemd-sysctl.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=` + hostNetworkScript + `
`

const bootedUnit = `[Unit]
Description=What tells the lab that this host serves
RequiresMountsFor=` + sharedDir + `

[Service]
ExecStart=/bin/sh -c 'until case $(systemctl is-system-running) in running | degraded) ;; *) false ;; esac; do sleep 0.1; done; touch ` + bootedFile + `'
`
