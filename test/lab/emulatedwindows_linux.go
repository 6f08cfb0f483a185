package lab

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// EmulatedWindows is what a node of a running lab has in the place of Windows: Wine, and emulators of HNS and of the
// Hyper-V switch's extension.
type EmulatedWindows struct {
	lab  *Lab
	node string
}

// EmulatedWindows of a Windows node.
func (l *Lab) EmulatedWindows(node string) (EmulatedWindows, error) {
	if err := l.CheckMachine(node); err != nil {
		return EmulatedWindows{}, err
	}
	if !slices.Contains(l.WindowsNodes(), node) {
		return EmulatedWindows{}, fmt.Errorf("%s is no Windows node; lab %q has %d of them", node, l.Name, l.Windows)
	}
	return EmulatedWindows{l, node}, nil
}

// CheckExtension is an error if the lab's Windows nodes have no emulated extension.
func (l *Lab) CheckExtension() error {
	if !l.emulated() {
		return fmt.Errorf("the Windows nodes of lab %q have no emulated extension: start one without "+
			"--windows-datapath linux", l.Name)
	}
	return nil
}

// HNSCommand is the command that hands args to the control of the emulated HNS.
func (w EmulatedWindows) HNSCommand(args ...string) ([]string, error) {
	return w.lab.Enter(w.node, append([]string{w.lab.files.lab("hnsemu"), "ctl", "--control", hnsControl}, args...)...)
}

// HyperVCommand is the command that hands args to the control of the emulated extension.
func (w EmulatedWindows) HyperVCommand(args ...string) ([]string, error) {
	if err := w.lab.CheckExtension(); err != nil {
		return nil, err
	}
	return w.lab.Enter(w.node, append([]string{w.lab.files.lab("hypervemu"), "ctl", "--control", hypervControl},
		args...)...)
}

// SetClock puts the clock that .exes read off by that much, from the next second or so on. The kubelet is a Linux
// program and keeps the machine's time.
func (w EmulatedWindows) SetClock(offset time.Duration) error {
	return os.WriteFile(w.lab.files.clock(w.node), fmt.Appendf(nil, "%+ds\n", int64(offset.Seconds())), 0o644)
}
