package hns

import "time"

// faults are what a machine does wrong. The zero value does nothing wrong. Faults of single calls are those of [calls].
type faults struct {
	delay    time.Duration // how long a vNIC comes after its container
	dhcp     bool          // the DHCP of management vNICs fails
	noDriver bool          // Open vSwitch's driver is not installed
	noVMMS   bool          // Hyper-V's management is not installed, or does not run
}

// view is the faults as the state shows them.
func (f faults) view() map[string]any {
	view := map[string]any{}
	if f.delay > 0 {
		view["delay-vnic"] = f.delay.Seconds()
	}
	for name, is := range map[string]bool{"dhcp-fail": f.dhcp, "no-driver": f.noDriver, "no-vmms": f.noVMMS} {
		if is {
			view[name] = true
		}
	}
	return view
}
