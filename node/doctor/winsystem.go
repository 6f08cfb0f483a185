package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/weftnet/weft/models/contract"
)

// errAbsent: what was asked for is not there, as opposed to a question without an answer.
var errAbsent = errors.New("it is not there")

// windowsVersion is what a Windows says of itself.
type windowsVersion struct {
	Product  string // "Windows Server 2022 Datacenter"
	Build    int    // 20348
	Revision int    // of the updates, 0 where unknown
	Server   bool
}

type versionReader interface {
	WindowsVersion() (windowsVersion, error)
}

// The builds that have containers, HNS's second API and a datapath of Open vSwitch.
var windowsServers = map[int]string{17763: "Windows Server 2019", 20348: "Windows Server 2022",
	26100: "Windows Server 2025"}

func checkWindowsVersion(reader versionReader) []Finding {
	const s = subject("windows-version")
	const remedy = "use Windows Server 2022 or 2025"
	v, err := reader.WindowsVersion()
	if err != nil {
		return s.unknown("run `winver`", "%v", err)
	}
	text := fmt.Sprintf("%s, build %d.%d", v.Product, v.Build, v.Revision)
	name, known := windowsServers[v.Build]
	switch {
	case v.Build < 17763:
		return s.failed(remedy, "%s is older than Windows Server 2019: its HNS cannot serve Kubernetes", text)
	case !v.Server:
		return s.warning(remedy, "%s is no server: Kubernetes does not support it as a node", text)
	case !known:
		return s.warning(remedy, "%s is a build that Weft does not know", text)
	case v.Build == 20348 && v.Revision >= 2582 && v.Revision < 2762:
		// microsoft/Windows-Containers issue 516: KB5040437 broke the network of pods, KB5044281 repaired it.
		return s.warning("install the current updates of Windows", "%s: the updates from July to September 2024 cut pods "+
			"off (KB5040437), that of October 2024 (KB5044281, build 20348.2762) repaired it", text)
	case v.Build == 17763:
		return s.warning(remedy, "%s (%s): kubelet's and containerd's newer releases are made for later ones", text, name)
	}
	return s.ok("%s (%s)", text, name)
}

// service is a Windows service.
type service struct {
	State string // as `sc query` writes it in lower case: "running", "stopped", "start pending", …
	Start string // "automatic", "manual", "disabled", "boot" or "system"
	Path  string
	// DependsOn are the services and drivers that Windows starts before it.
	DependsOn []string
	// Restarts is how many of its recovery actions restart it.
	Restarts int
	// RecoversFromErrors: recovery also follows an end with an error code, and not only a crash.
	RecoversFromErrors bool
}

func (s service) running() bool { return s.State == "running" }

// serviceReader reads the service manager; errAbsent for a service that is not installed.
type serviceReader interface {
	Service(name string) (service, error)
}

// libraryReader tries to load one of the system's libraries; errAbsent.
type libraryReader interface {
	Library(name string) error
}

// checkContainers: HNS comes with the feature Containers.
func checkContainers(services serviceReader, libraries libraryReader) []Finding {
	const s = subject("containers-feature")
	const remedy = "run `Install-WindowsFeature Containers -Restart`"
	for _, library := range []string{"computenetwork.dll", "vmcompute.dll"} {
		if err := libraries.Library(library); err != nil {
			return s.failed(remedy, "there is no %s: %v", library, err)
		}
	}
	var text []string
	for _, name := range []string{"hns", "vmcompute"} {
		found, err := services.Service(name)
		switch {
		case errors.Is(err, errAbsent):
			return s.failed(remedy, "the libraries are there, but not the service %s", name)
		case err != nil:
			return s.unknown("run `Get-Service "+name+"`", "service %s: %v", name, err)
		case found.Start == "disabled":
			return s.failed("run `Set-Service "+name+" -StartupType Manual`", "service %s is disabled", name)
		}
		text = append(text, name+" "+found.State) // stopped is no fault: they start when they are asked
	}
	return s.ok("%s", strings.Join(text, ", "))
}

// checkRuntime: Open vSwitch's programs are built by Visual Studio's compiler, and need its libraries. Without them a
// service ends at once, with an error that names none.
func checkRuntime(libraries libraryReader) []Finding {
	const s = subject("vc-runtime")
	if err := libraries.Library("vcruntime140.dll"); err != nil {
		return s.warning("install the Visual C++ Redistributable for x64, unless your build of Open vSwitch brings its own "+
			"vcruntime140.dll beside its programs",
			"Windows has no vcruntime140.dll, without which Open vSwitch's programs do not start: %v", err)
	}
	return s.ok("the Visual C++ runtime is installed")
}

// packetMonitor asks Windows' Packet Monitor for its help; errAbsent.
type packetMonitor interface {
	PacketMonitor(ctx context.Context) error
}

// checkPacketMonitor: captures need pktmon.exe, and one that writes pcapng.
func checkPacketMonitor(ctx context.Context, monitor packetMonitor) []Finding {
	const s = subject("packet-monitor")
	switch err := monitor.PacketMonitor(ctx); {
	case errors.Is(err, errAbsent):
		return s.warning("use Windows Server 2022 or later to capture packets of this node", "Windows has no pktmon.exe: "+
			"`weft capture` of this node is refused")
	case err != nil:
		return s.warning("see what `pktmon etl2pcap help` says on the node", "pktmon.exe does not convert packets to "+
			"pcapng, so `weft capture` of this node fails: %v", err)
	}
	return s.ok("pktmon.exe is there, for `weft capture`")
}

// moduleReader says whether PowerShell has a module; errAbsent if not.
type moduleReader interface {
	Module(name string) error
}

// Ways to the role Hyper-V; the second is for a processor that has no virtualization, or lends none (docs/windows.md of
// Antrea, "Known issues" 2).
const installHyperV = "run `Install-WindowsFeature Hyper-V, Hyper-V-PowerShell -Restart`; where the processor has no " +
	"virtualization: `Install-WindowsFeature Hyper-V-PowerShell`, " +
	"`dism /online /enable-feature /featurename:Microsoft-Hyper-V /all /NoRestart`, `dism /online /disable-feature " +
	"/featurename:Microsoft-Hyper-V-Online /NoRestart`, and restart"

// checkHyperV: pods of process isolation need no hypervisor. But Open vSwitch finds and makes the vNIC of each of its
// internal ports by Hyper-V's WMI provider, which is the service vmms (lib/wmi.c), and the agent names the host's by
// Hyper-V's PowerShell module.
func checkHyperV(services serviceReader, modules moduleReader) []Finding {
	const s = subject("hyper-v")
	found, err := services.Service("vmms")
	switch {
	case errors.Is(err, errAbsent):
		return s.failed(installHyperV, "the role Hyper-V is not installed: without its management service vmms Open "+
			"vSwitch opens no port of pods, nor the host's")
	case err != nil:
		return s.unknown("run `Get-Service vmms`", "service vmms: %v", err)
	case found.Start == "disabled":
		return s.failed("run `Set-Service vmms -StartupType Automatic` and `Start-Service vmms`",
			"the service vmms is disabled: without it Open vSwitch opens no port")
	case !found.running():
		return s.failed("run `Start-Service vmms`; the agent has Open vSwitch open its ports again within half a minute",
			"the service vmms is %s: until it runs Open vSwitch opens no new port", found.State)
	}
	switch err := modules.Module("Hyper-V"); {
	case errors.Is(err, errAbsent):
		return s.failed("run `Install-WindowsFeature Hyper-V-PowerShell`",
			"vmms runs, but PowerShell has no module Hyper-V, by which the agent names the host's adapter on its switch")
	case err != nil:
		return s.unknown("run `Get-Module -ListAvailable Hyper-V`", "PowerShell's module Hyper-V: %v", err)
	}
	return s.ok("vmms runs, and PowerShell has its module")
}

// checkDaemon looks at one of Open vSwitch's services. Whoever runs the daemons in another way knows it:
// whether they answer is another check's question. early: see checkVswitchd.
func checkDaemon(services serviceReader, name string, early bool) []Finding {
	s := subject(name + "-service")
	found, err := services.Service(name)
	switch {
	case errors.Is(err, errAbsent):
		return s.unknown("", "there is no service %s; it may run in another way, such as in a container", name)
	case err != nil:
		return s.unknown("run `Get-Service "+name+"`", "%v", err)
	case !found.running() && early:
		return s.warning("run `Start-Service "+name+"`; if it does not stay up, look again when the agent has enabled the "+
			"extension", "it is %s", found.State)
	case !found.running():
		return s.failed("run `Start-Service "+name+"`, and see its log if it does not stay up", "it is %s", found.State)
	case found.Start != "automatic":
		return s.warning("run `Set-Service "+name+" -StartupType Automatic`",
			"it runs, but its start is %s: it will not come back with the machine", found.Start)
	}
	return s.ok("running, starts with the machine")
}

// checkDependencies: ovs-vswitchd opens the ports that it has in its database when it starts, and Hyper-V's management
// makes their vNICs. If that comes later they are in error until the agent has ovs-vswitchd try again.
func checkDependencies(services serviceReader) []Finding {
	const s = subject("ovs-services-wait")
	const server, daemon, management = "ovsdb-server", "ovs-vswitchd", "vmms"
	waits := func(one service, name string) bool {
		return slices.ContainsFunc(one.DependsOn, func(other string) bool { return strings.EqualFold(other, name) })
	}
	vswitchd, err := services.Service(daemon)
	switch {
	case errors.Is(err, errAbsent):
		return s.unknown("", "there is no service %s; it may run in another way, such as in a container", daemon)
	case err != nil:
		return s.unknown("run `sc.exe qc "+daemon+"`", "%v", err)
	case waits(vswitchd, management):
		return s.ok("%s waits for %s", daemon, management)
	}
	database, err := services.Service(server)
	switch {
	case err != nil && !errors.Is(err, errAbsent):
		return s.unknown("run `sc.exe qc "+server+"`", "%v", err)
	case err == nil && waits(vswitchd, server) && waits(database, management):
		return s.ok("%s waits for %s, and that for %s", daemon, server, management)
	}
	also := append(slices.Clone(vswitchd.DependsOn), management)
	return s.warning("run `sc.exe config "+daemon+" depend= "+strings.Join(also, "/")+"`",
		"Windows may start %s before %s, which makes the vNICs of its ports: after a restart pods wait for theirs for up "+
			"to half a minute longer", daemon, management)
}

// checkAgentService: the node's network must come back by itself after a reboot and after a crash.
func checkAgentService(services serviceReader, name string) []Finding {
	const s = subject("agent-service")
	found, err := services.Service(name)
	switch {
	case errors.Is(err, errAbsent):
		return s.warning("run `weft.exe service install` when the other checks are well",
			"the service %s is not installed yet", name)
	case err != nil:
		return s.unknown("run `Get-Service "+name+"` as an administrator", "%v", err)
	case !found.running():
		return s.failed("run `Start-Service "+name+"`; the event log Application, source "+name+", has its errors",
			"the service %s is %s", name, found.State)
	case found.Start != "automatic":
		return s.failed("run `weft.exe service install` again", "the start of service %s is %s: the node would have no "+
			"network for pods after a reboot", name, found.Start)
	case found.Restarts == 0:
		return s.warning("run `weft.exe service install` again", "the service %s has no recovery action: it stays down "+
			"after a crash", name)
	case !found.RecoversFromErrors:
		return s.warning("run `weft.exe service install` again, or `sc.exe failureflag "+name+" 1`",
			"the service %s recovers from a crash, but not from an end with an error", name)
	}
	return s.ok("service %s is running, starts with the machine and after failures", name)
}

// pipeReader says whether a named pipe is served; errAbsent if not.
type pipeReader interface {
	Pipe(ctx context.Context, name string) error
}

// checkPipe: weft-cni and kubelet find their peers by pipes.
func checkPipe(ctx context.Context, pipes pipeReader, s subject, name, whose string, needed bool) []Finding {
	err := pipes.Pipe(ctx, name)
	switch {
	case err == nil:
		return s.ok("%s has %s", whose, name)
	case !errors.Is(err, errAbsent):
		return s.unknown("", "%s: %v", name, err)
	case needed:
		return s.failed("see the log of "+whose, "there is no pipe %s of %s", name, whose)
	}
	return s.warning("start "+whose, "there is no pipe %s: %s does not run", name, whose)
}

// checkFreeGenevePort: the driver takes the tunnels' packets inside the switch and needs no socket, so a
// program that has the port gets none of its packets any more.
func checkFreeGenevePort(listen func(port int) error) []Finding {
	const s = subject("geneve-port")
	var errno syscall.Errno
	switch err := listen(contract.TunnelPort); {
	case err == nil:
		return s.ok("no program has UDP %d", contract.TunnelPort)
	case errors.As(err, &errno) && (errno == wsaEADDRINUSE || errno == wsaEACCES):
		return s.warning("see which program has it: `Get-NetUDPEndpoint -LocalPort 6081`, and end it",
			"UDP %d is taken on this host, such as by another network's tunnels: %v", contract.TunnelPort, err)
	default:
		return s.unknown("run `Get-NetUDPEndpoint -LocalPort 6081`", "UDP %d: %v", contract.TunnelPort, err)
	}
}

// What Windows says of a port that another program has; the second if that one has it for itself alone.
const (
	wsaEADDRINUSE syscall.Errno = 10048
	wsaEACCES     syscall.Errno = 10013
)
