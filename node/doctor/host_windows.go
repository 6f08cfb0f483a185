package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/ovsdriver"
	"github.com/weftnet/weft/node/pktmon"
	"github.com/weftnet/weft/node/unixctl"
)

// systemChecks are those of a Windows node.
func systemChecks(config Config) []check {
	host := nativeHost{config: config}
	return windowsChecks(config, readers{
		api: apiServer{config.Kubeconfig}, server: apiServerName(config.Kubeconfig),
		vswitch: vswitchDatabase{config.OVSDatabase, local.Dial}, daemons: host, openFlow: host.openFlow,
		agent: localAgent{config.MetricsAddress}, metrics: localAgent{config.MetricsAddress}, files: osFiles{}, disk: host,
		names:    net.DefaultResolver,
		conflist: os.DirFS(config.CNIConfDir), listen: tryListen,
	}, host, newHNS())
}

// nativeHost reads this Windows.
type nativeHost struct {
	hostnet.Native
	config Config
}

func newHNS() hnsReader {
	shim, err := hns.NewHCSShim()
	if err != nil {
		return noHNS{fmt.Errorf("%w: %w", errAbsent, err)}
	}
	return hns.NewClient(shim, hns.Config{})
}

// noHNS is a Windows without HNS.
type noHNS struct{ error }

func (n noHNS) Version(context.Context) (hns.Version, error)            { return hns.Version{}, n.error }
func (n noHNS) Networks(context.Context) ([]hns.Network, error)         { return nil, n.error }
func (n noHNS) Switch(context.Context, hns.Network) (hns.Switch, error) { return hns.Switch{}, n.error }

func (h nativeHost) openFlow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	endpoint, err := openFlowEndpoint(h.config)
	if err != nil {
		return err
	}
	conn, err := local.Dial(ctx, endpoint)
	if err != nil {
		return err
	}
	return helloOpenFlow(ctx, conn)
}

// Arguments are none: no ovn-controller runs on Windows.
func (nativeHost) Arguments(_ context.Context, daemon string) ([]string, error) {
	return nil, fmt.Errorf("%s does not run on Windows: %w", daemon, errAbsent)
}

// Control asks by the pipe beside the database's: on Windows its name has no process's number
// (unixctl_server_create in lib/unixctl.c of Open vSwitch).
func (h nativeHost) Control(ctx context.Context, daemon, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if daemon == "ovs-vswitchd" && h.config.OVSControl != "" {
		return unixctl.Call(ctx, strings.TrimPrefix(h.config.OVSControl, "unix:"), command)
	}
	first, _, _ := strings.Cut(h.config.OVSDatabase, ",")
	socket, isUnix := strings.CutPrefix(first, "unix:")
	if !isUnix {
		return "", fmt.Errorf("ovs-database %q tells nothing of %s's pipe: %w", h.config.OVSDatabase, daemon, errAbsent)
	}
	path := socket[:strings.LastIndexAny(socket, `/\`)+1] + daemon + ".ctl"
	return unixctl.Call(ctx, path, command)
}

func (nativeHost) PacketMonitor(ctx context.Context) error {
	err := pktmon.Check(ctx, pktmon.Program())
	if errors.Is(err, fs.ErrNotExist) {
		return errAbsent
	}
	return err
}

func (nativeHost) WindowsVersion() (windowsVersion, error) {
	const workstation = 1 // VER_NT_WORKSTATION
	info := windows.RtlGetVersion()
	v := windowsVersion{Product: "Windows", Build: int(info.BuildNumber), Server: info.ProductType != workstation}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion`,
		registry.QUERY_VALUE)
	if err != nil {
		return v, nil // the build is what counts
	}
	defer key.Close()
	if name, _, err := key.GetStringValue("ProductName"); err == nil {
		v.Product = name
	}
	if kind, _, err := key.GetStringValue("InstallationType"); err == nil { // "Server", "Server Core" or "Client"
		v.Server = strings.HasPrefix(kind, "Server")
	}
	if revision, _, err := key.GetIntegerValue("UBR"); err == nil {
		v.Revision = int(revision)
	}
	return v, nil
}

var serviceStates = map[svc.State]string{
	svc.Stopped: "stopped", svc.StartPending: "start pending", svc.StopPending: "stop pending", svc.Running: "running",
	svc.ContinuePending: "continue pending", svc.PausePending: "pause pending", svc.Paused: "paused",
}

var serviceStarts = map[uint32]string{
	windows.SERVICE_BOOT_START: "boot", windows.SERVICE_SYSTEM_START: "system", windows.SERVICE_AUTO_START: "automatic",
	windows.SERVICE_DEMAND_START: "manual", windows.SERVICE_DISABLED: "disabled",
}

// oneService: Wine's service manager mixes up the handles of callers that come at once.
var oneService sync.Mutex

// Service asks for no more rights than every user has; the package mgr would ask for all.
func (nativeHost) Service(name string) (service, error) {
	oneService.Lock()
	defer oneService.Unlock()
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return service{}, fmt.Errorf("service manager: %w", err)
	}
	defer windows.CloseServiceHandle(manager)
	name16, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return service{}, err
	}
	handle, err := windows.OpenService(manager, name16, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return service{}, errAbsent
	}
	if err != nil {
		return service{}, fmt.Errorf("open service %s: %w", name, err)
	}
	opened := &mgr.Service{Name: name, Handle: handle}
	defer opened.Close()
	return describeService(opened)
}

func describeService(opened *mgr.Service) (service, error) {
	status, err := opened.Query()
	if err != nil {
		return service{}, fmt.Errorf("state of service %s: %w", opened.Name, err)
	}
	// Not by Config of mgr, which fails where one of its further questions is not known.
	buffer := make([]byte, 8<<10) // the most that the call needs, by its documentation
	config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
	var needed uint32
	if err := windows.QueryServiceConfig(opened.Handle, config, uint32(len(buffer)), &needed); err != nil {
		return service{}, fmt.Errorf("configuration of service %s: %w", opened.Name, err)
	}
	s := service{State: serviceStates[status.State], Start: serviceStarts[config.StartType],
		Path: windows.UTF16PtrToString(config.BinaryPathName)}
	runtime.KeepAlive(buffer)
	if actions, err := opened.RecoveryActions(); err == nil { // a driver has none
		for _, action := range actions {
			if action.Type == mgr.ServiceRestart {
				s.Restarts++
			}
		}
	}
	s.RecoversFromErrors, _ = opened.RecoveryActionsOnNonCrashFailures()
	s.DependsOn, err = dependencies(opened.Name)
	return s, err
}

// dependencies reads them where the service manager keeps them: Wine's tells nobody.
func dependencies(name string) ([]string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\`+name, registry.QUERY_VALUE)
	if err != nil {
		return nil, fmt.Errorf("dependencies of service %s: %w", name, err)
	}
	defer key.Close()
	names, _, err := key.GetStringsValue("DependOnService")
	if err != nil && !errors.Is(err, registry.ErrNotExist) {
		return nil, fmt.Errorf("dependencies of service %s: %w", name, err)
	}
	return names, nil
}

func (nativeHost) Library(name string) error {
	if err := windows.NewLazySystemDLL(name).Load(); err != nil {
		return fmt.Errorf("%w: %w", errAbsent, err)
	}
	return nil
}

// Module looks for it where Windows installs its own.
func (nativeHost) Module(name string) error {
	root, err := windows.GetSystemDirectory()
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(root, `WindowsPowerShell\v1.0\Modules`, name))
	if errors.Is(err, fs.ErrNotExist) {
		return errAbsent
	}
	return err
}

var procWaitNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("WaitNamedPipeW")

// Pipe asks without becoming a client. WaitNamedPipe fails at once for a pipe that is not there, and
// with a timeout for one whose every instance is busy.
func (nativeHost) Pipe(_ context.Context, name string) error {
	name16, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	const millisecond = 1
	r, _, err := procWaitNamedPipe.Call(uintptr(unsafe.Pointer(name16)), millisecond)
	switch {
	case r != 0, errors.Is(err, windows.ERROR_SEM_TIMEOUT), errors.Is(err, windows.WAIT_TIMEOUT):
		return nil
	case errors.Is(err, windows.ERROR_FILE_NOT_FOUND):
		return errAbsent
	}
	return err
}

// Driver looks for the service that the driver's inf makes.
func (h nativeHost) Driver(kind ovsdriver.Kind) (driver, error) {
	s, err := h.Service(kind.Service)
	if err != nil {
		return driver{}, err
	}
	d := driver{Kind: kind, Path: ovsdriver.File(kind, s.Path), Loaded: s.running()}
	d.Signer, d.Refused, d.SignatureUnknown = signatureOf(d.Path)
	d.Build, _ = ovsdriver.ReadBuild(d.Path) // the signature's check tells of a file that cannot be read
	return d, nil
}

// Flags of SYSTEM_CODEINTEGRITY_INFORMATION (winternl.h).
const (
	codeIntegrityEnabled  = 0x01
	codeIntegrityTestSign = 0x02
)

func (nativeHost) CodeIntegrity() (codeIntegrity, error) {
	information := struct{ length, options uint32 }{length: 8}
	if err := windows.NtQuerySystemInformation(windows.SystemCodeIntegrityInformation, unsafe.Pointer(&information),
		information.length, nil); err != nil {
		return codeIntegrity{}, fmt.Errorf("NtQuerySystemInformation(SystemCodeIntegrityInformation): %w", err)
	}
	return codeIntegrity{
		Enforced: information.options&codeIntegrityEnabled != 0, TestSigning: information.options&codeIntegrityTestSign != 0,
	}, nil
}

func (nativeHost) SecureBoot() (bool, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Control\SecureBoot\State`,
		registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return false, errAbsent
	}
	if err != nil {
		return false, err
	}
	defer key.Close()
	enabled, _, err := key.GetIntegerValue("UEFISecureBootEnabled")
	return enabled != 0, err
}

// firewallPolicy is where the firewall's service keeps its rules; those of a group policy are elsewhere.
const firewallPolicy = `SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy`

var firewallRuleKeys = []string{firewallPolicy + `\FirewallRules`,
	`SOFTWARE\Policies\Microsoft\WindowsFirewall\FirewallRules`}

// firewallProfiles maps their keys in the registry to their names.
var firewallProfiles = []struct{ key, name string }{
	{"DomainProfile", "domain"}, {"StandardProfile", "private"}, {"PublicProfile", "public"},
}

func (nativeHost) Firewall() (firewall, error) {
	var f firewall
	for _, profile := range firewallProfiles {
		key, err := registry.OpenKey(registry.LOCAL_MACHINE, firewallPolicy+`\`+profile.key, registry.QUERY_VALUE)
		if err != nil {
			return firewall{}, fmt.Errorf("profile %s of Windows' firewall: %w", profile.name, err)
		}
		enabled, _, err := key.GetIntegerValue("EnableFirewall")
		key.Close()
		if err != nil {
			return firewall{}, fmt.Errorf("profile %s of Windows' firewall: %w", profile.name, err)
		}
		if enabled != 0 {
			f.Profiles = append(f.Profiles, profile.name)
		}
	}
	for i, path := range firewallRuleKeys {
		err := f.read(path)
		if err != nil && (i == 0 || !errors.Is(err, registry.ErrNotExist)) {
			return firewall{}, fmt.Errorf("rules of Windows' firewall: %w", err)
		}
	}
	return f, nil
}

// read adds the rules of one key.
func (f *firewall) read(path string) error {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return err
	}
	defer key.Close()
	names, err := key.ReadValueNames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, _, err := key.GetStringValue(name)
		if err != nil {
			return err
		}
		rule, err := parseRule(text)
		if err != nil {
			f.Unread = append(f.Unread, name)
			continue
		}
		f.Rules = append(f.Rules, rule)
	}
	return nil
}

// FreeSpace measures the volume that the folder is on, or will be.
func (nativeHost) FreeSpace(folder string) (free, total uint64, err error) {
	existing, err := existingFolder(folder)
	if err != nil {
		return 0, 0, err
	}
	path, err := windows.UTF16PtrFromString(existing)
	if err != nil {
		return 0, 0, err
	}
	if err := windows.GetDiskFreeSpaceEx(path, &free, &total, nil); err != nil {
		return 0, 0, fmt.Errorf("GetDiskFreeSpaceEx: %w", err)
	}
	return free, total, nil
}
