// Package machine runs one machine of the lab: a set of namespaces with network interfaces, a file
// system of its own over the host's, and components that are started in order, watched and started
// again when they end, as an init system would.
package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// LegacyCgroups is a directory of every machine; in one with [Spec.Unified] it has the hierarchies of cgroup v1,
// if the host has them.
const LegacyCgroups = "/run/cgroup"

// KernelSettings are those of the whole kernel that kubelet insists on writing, and what it wants there: it
// gets files instead, so that the host's stay as they are.
var KernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// Spec is everything a machine needs to know; it is data, made by package lab.
type Spec struct {
	// Lab and Name together name the machine's cgroups; Name is also its host name.
	Lab, Name string
	// LabDir is the lab's state directory; it keeps its path inside the machine.
	LabDir string
	// Unified: /sys/fs/cgroup is the unified hierarchy alone, as a systemd wants it. [LegacyCgroups] has the
	// hierarchies of cgroup v1, if the host has them.
	Unified    bool
	Interfaces []Interface
	Routes     []Route
	// Sysctls are "net.ipv4.ip_forward=1" and so on, of the machine's own network namespace.
	Sysctls  []string
	Files    []File
	Binds    []Bind
	Overlays []Overlay
	// Env is added to the environment of every command and component.
	Env []string
	// Setup commands run once, when interfaces and files are in place.
	Setup      [][]string
	Components []Component
}

// Interface is a veth whose other end is a port of one of the lab's bridges.
type Interface struct {
	Name, Bridge string
	// Addresses are the kernel's own on it, with the length of their subnet.
	Addresses []string
	MTU       int
	// MAC is the kernel's choice where it is empty.
	MAC string
	// Switched: the interface belongs to the userspace datapath, or to a kernel in userspace. It reads copies
	// of the frames, so the kernel's own stack must be kept from seeing them too.
	Switched bool
}

// Route is a static route of the machine.
type Route struct{ Destination, Via string }

// File is written before anything starts.
type File struct {
	Path, Content string
	// Source is the path of a file that has the content, where that is not set.
	Source string `json:",omitempty"`
	// Mode is 0644 where it is 0; with [os.ModeSymlink] the content is where a link leads.
	Mode os.FileMode
}

// Bind puts a path of the host at another one in the machine: for state that must survive the
// machine and for what overlay file systems cannot hold. With Create the source is made as a
// directory where it does not exist.
type Bind struct {
	Source, Target string
	Create         bool
}

// Overlay shows the directory Lower at Target; what the machine writes there goes to a directory of
// its own, Upper, which survives the machine. Files, whose paths are below Target, are written when Upper
// is new.
type Overlay struct {
	Lower, Upper, Target string
	Files                []File
}

// Component is one long-running program, or with Once a command that must succeed once.
type Component struct {
	Name    string
	Command []string
	Env     []string
	// WaitFor must hold before the component is started.
	WaitFor []Probe
	// Prepare commands run before each start, Finish commands after each start, when Ready holds.
	Prepare, Finish [][]string
	// Repeat commands run each time that the component has served for another RepeatEvery.
	Repeat      [][]string
	RepeatEvery time.Duration
	// Ready tells that the component serves. An empty one holds as soon as it runs.
	Ready Probe
	// Patience is how long it may take until Ready holds: a minute if it is 0.
	Patience time.Duration
	// Stop ends the component in an orderly way; SIGTERM does where it is empty.
	Stop []string
	Once bool
	// Vital: when it ends, having served, the machine starts anew, or is off if the component ended by itself
	// with status 0.
	Vital bool
}

// Probe is one condition: that of its fields which is set.
type Probe struct {
	// Unix is a socket that accepts connections, TCP an address that does.
	Unix, TCP string
	// URL answers with 200; CA is the PEM file that its server is checked by.
	URL, CA string
	// Path exists.
	Path string
}

func (p Probe) String() string {
	for _, s := range []string{p.Unix, p.TCP, p.URL, p.Path} {
		if s != "" {
			return s
		}
	}
	return "nothing"
}

// States of a component.
const (
	StateWaiting  = "waiting"  // for what it needs
	StateStarting = "starting" // runs, does not serve yet
	StateRunning  = "running"
	StateBackoff  = "backoff" // ended by itself, will be started again
	StateDone     = "done"    // a Once that succeeded
	StateStopped  = "stopped" // until it is told to start again
)

// Status of a machine.
type Status struct {
	Machine    string            `json:"machine"`
	Components []ComponentStatus `json:"components"`
}

// ComponentStatus is one component's.
type ComponentStatus struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	PID      int       `json:"pid,omitempty"`
	Restarts int       `json:"restarts"`
	Since    time.Time `json:"since"`
	// Detail says what a component waits for, or how it ended.
	Detail string `json:"detail,omitempty"`
}

// OK reports whether the component does its work.
func (c ComponentStatus) OK() bool { return c.State == StateRunning || c.State == StateDone }

// The files of a machine below its lab's state directory.
func Dir(labDir, name string) string { return filepath.Join(labDir, name) }

// SpecFile holds the machine's [Spec] as JSON.
func SpecFile(labDir, name string) string { return filepath.Join(Dir(labDir, name), "spec.json") }

// LogFile is what a component wrote to its standard output and error.
func LogFile(labDir, name, component string) string {
	return filepath.Join(Dir(labDir, name), "log", component+".log")
}

// PIDFile holds the process ID of the machine's init, as the lab's PID namespace numbers it.
func PIDFile(labDir, name string) string { return filepath.Join(Dir(labDir, name), "pid") }

// EndFile exists when the machine has ended unasked; it says how.
func EndFile(labDir, name string) string { return filepath.Join(Dir(labDir, name), "ended") }

// rebootFile exists while a machine ends because it was told to start anew.
func rebootFile(labDir, name string) string { return filepath.Join(Dir(labDir, name), "reboot") }

// offFile exists while a machine is to be off.
func offFile(labDir, name string) string { return filepath.Join(Dir(labDir, name), "off") }

// IsOff tells whether a machine is off because that is wanted.
func IsOff(labDir, name string) bool {
	_, err := os.Stat(offFile(labDir, name))
	return err == nil
}

// PortName is the name of a machine's port on a bridge; it keeps within the 15 bytes of an interface's name.
func PortName(machine, bridge string) string { return machine + "-" + bridge[:2] }

// Write stores the spec where the machine finds it.
func (s *Spec) Write() error {
	if err := os.MkdirAll(filepath.Join(Dir(s.LabDir, s.Name), "log"), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(SpecFile(s.LabDir, s.Name), text, 0o600)
}

// Read is the inverse of [Spec.Write].
func Read(labDir, name string) (*Spec, error) {
	text, err := os.ReadFile(SpecFile(labDir, name))
	if err != nil {
		return nil, err
	}
	spec := &Spec{}
	if err := json.Unmarshal(text, spec); err != nil {
		return nil, fmt.Errorf("%s: %w", SpecFile(labDir, name), err)
	}
	return spec, nil
}
