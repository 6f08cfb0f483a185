// Package ovsdriver knows the drivers for Windows that are built from Open vSwitch's sources: one and the same
// extension of the Hyper-V switch under several names.
package ovsdriver

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a driver by its names.
type Kind struct {
	Name      string // in the key ovs-driver
	Extension string // ID of the switch extension: NetCfgInstanceId in the inf
	Title     string // the extension's name, as Get-VMSwitchExtension shows it
	Component string // what netcfg installs
	Service   string // of the service manager
	INF       string
	SYS       string
}

// Kinds are those that are known, the first of those that share their names first. Names of upstream: ovsext.inf and
// Driver.c in datapath-windows/ovsext of openvswitch/ovs; antrea's are the same (hack/windows/Install-OVS.ps1);
// dbosoft's: ovsext.inf and Driver.c of dbosoft/ovs.
var Kinds = []Kind{
	{"upstream", "583CC151-73EC-4A6A-8B47-578297AD7623", "Open vSwitch Extension", "OVSExt", "OVSExt", "ovsext.inf",
		"OVSExt.sys"},
	{"antrea", "583CC151-73EC-4A6A-8B47-578297AD7623", "Open vSwitch Extension", "OVSExt", "OVSExt", "ovsext.inf",
		"OVSExt.sys"},
	{"dbosoft", "63E968D9-754E-4704-A5CE-6E3BF7DDF59B", "dbosoft Open vSwitch Extension", "DBO_OVSE", "DBO_OVSE",
		"dbo_ovse.inf", "DBO_OVSE.sys"},
}

// Names are the kinds', for messages.
func Names() string {
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// Validate refuses a name that is no kind's; an empty one stands for what is installed.
func Validate(name string) error {
	if name != "" && !slices.ContainsFunc(Kinds, func(k Kind) bool { return k.Name == name }) {
		return fmt.Errorf("%q is no driver that is known: %s, or empty for the one that is installed", name, Names())
	}
	return nil
}

// Installed returns the only kind that is there, or the one of that name whether it is there or not. Kinds that share
// all their names are one. ok is false where none is there; several that are there are an error.
func Installed(name string, there func(Kind) bool) (kind Kind, ok bool, err error) {
	var found []Kind
	for _, k := range Kinds {
		switch {
		case name == k.Name:
			return k, there(k), nil
		case name != "" || slices.ContainsFunc(found, func(f Kind) bool { return f.Extension == k.Extension }):
		case there(k):
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		return Kinds[0], false, nil
	case 1:
		return found[0], true, nil
	}
	return found[0], true, fmt.Errorf("this node has the drivers %s and %s, of which a switch can have one: remove one "+
		"(netcfg -u %s), or name one by the key ovs-driver", found[0].Name, found[1].Name, found[1].Component)
}
