package hns

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// injector makes faults: of calls, and of the system.
type injector struct {
	system *system
	calls  *calls
	hcn    *hcn
}

func seconds(text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 86400 {
		return 0, fmt.Errorf("seconds: %q is none from 0 to 86400", text)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// count is how often; without it always: negative.
func count(args []string) (int, error) {
	if len(args) == 0 {
		return -1, nil
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("count: %q is none from 1 on", args[0])
	}
	return n, nil
}

func checkCall(name string) error {
	if _, _, known := parseFunction(name); known || name == "HNSCall" || name == powerShellFunction ||
		hostFunctions[name] {
		return nil
	}
	return fmt.Errorf("no call %q: one of HCN such as HcnDeleteEndpoint, of iphlpapi such as "+
		"CreateUnicastIpAddressEntry, HNSCall or PowerShell", name)
}

func (i *injector) hang(args []string) (string, error) {
	held, err := seconds(args[1])
	times, countErr := count(args[2:])
	if err := errors.Join(checkCall(args[0]), err, countErr); err != nil {
		return "", err
	}
	i.calls.hang(args[0], hang{held, times})
	return "", nil
}

func (i *injector) fail(args []string) (string, error) {
	code, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(args[1]), "0x"), 16, 32)
	if err != nil || code == 0 {
		return "", fmt.Errorf("HRESULT: %q is none, such as 0x803b0001", args[1])
	}
	times, err := count(args[2:])
	if err := errors.Join(checkCall(args[0]), err); err != nil {
		return "", err
	}
	i.calls.fail(args[0], failing{Error(code), times})
	return "", nil
}

// loseNetwork: the vSwitch vanishes, with the network and its endpoints.
func (i *injector) loseNetwork(args []string) (string, error) {
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	lost := 0
	for _, n := range slices.Clone(i.system.objects.Networks) {
		if len(args) == 0 && n.Adapter != "" || len(args) == 1 && n.Name == args[0] {
			_ = i.system.objects.remove(kindNetwork, n.ID)
			lost++
		}
	}
	if lost == 0 {
		return "", errors.New("there is no such network to lose")
	}
	i.system.keep()
	return "", nil
}

// loseEndpoints: HNS forgets its endpoints while their containers run.
func (i *injector) loseEndpoints([]string) (string, error) {
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	for _, e := range slices.Clone(i.system.objects.Endpoints) {
		i.system.objects.removeEndpoint(e)
	}
	i.system.keep()
	return "", nil
}

func (i *injector) disableExtension([]string) (string, error) {
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	for _, n := range i.system.objects.Networks {
		if e := n.extension(OVSExtension); e != nil {
			e.IsEnabled = false
		}
	}
	i.system.keep()
	return "", nil
}

// noDriver: Open vSwitch's driver is not installed, so that no switch has its extension.
func (i *injector) noDriver([]string) (string, error) {
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	i.system.faults.noDriver = true
	for _, n := range i.system.objects.Networks {
		n.Extensions = slices.DeleteFunc(n.Extensions, func(e Extension) bool { return sameID(e.ID, OVSExtension) })
	}
	i.system.keep()
	return "", nil
}

// noVMMS: Hyper-V's management is not installed, or does not run.
func (i *injector) noVMMS([]string) (string, error) {
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	i.system.faults.noVMMS = true
	i.system.keep()
	return "", nil
}

func (i *injector) delayVNIC(args []string) (string, error) {
	wait, err := seconds(args[0])
	if err != nil {
		return "", err
	}
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	i.system.faults.delay = wait
	return "", nil
}

// restart: the service stops and is back after some seconds, 2 if not said. Its objects are
// as before, except for handles.
func (i *injector) restart(args []string) (string, error) {
	down := 2 * time.Second
	if len(args) == 1 {
		var err error
		if down, err = seconds(args[0]); err != nil {
			return "", err
		}
	}
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	i.system.stopped = time.Now().Add(down)
	clear(i.hcn.handles)
	return "", nil
}

func (i *injector) dhcpFail([]string) (string, error) {
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	i.system.faults.dhcp = true
	return "", nil
}

// clear ends the faults. What they did is not undone, but that a missing driver is there again.
func (i *injector) clear([]string) (string, error) {
	i.calls.clear()
	i.system.mu.Lock()
	defer i.system.mu.Unlock()
	i.system.faults, i.system.stopped = faults{}, time.Time{}
	for _, n := range i.system.objects.Networks {
		if n.extension(OVSExtension) == nil && n.Adapter != "" && i.system.hasDriver() {
			n.Extensions = append(n.Extensions, Extension{ID: OVSExtension, Name: "Open vSwitch Extension"})
		}
	}
	i.system.keep()
	return "", nil
}
