//go:build linux

package hyperv

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// verb is what a test tells the emulator.
type verb struct {
	args, does string
	run        func(e *Extension, arg string) (string, error)
}

var verbs = map[string]verb{
	"connect":    {"PORT", "connect the vNIC of a port again", connected(true)},
	"disconnect": {"PORT", "disconnect the vNIC of a port, which stays", connected(false)},
	"collisions": {"", "tell as JSON which connections have lately found a translation's port taken", collisions},
	"extension": {"on|off", "enable or disable the extension on the switch; off, ovs-vswitchd aborts",
		onOff((*Extension).SetEnabled)},
	"vmms": {"on|off", "start or stop Hyper-V's management service; off, no port of type internal comes",
		onOff((*Extension).SetVMMS)},
	"upcalls": {"on|off", "off, what is sent up to ovs-vswitchd is lost", onOff(func(e *Extension, on bool) {
		e.SetLoseUpcalls(!on)
	})},
	"slow": {"DURATION", "each command takes that long; 0s: none does", slow},
	"faults": {"[LIST]", "have the faults of the list and no others, as all,-stale-tuple; without a list tell them",
		switchFaults},
	"executed": {"", "tell as JSON how often packets have met each action, each set of a field and each helper, and how " +
		"many flows match each field; fails if these names are not written down", executed},
	"status": {"", "tell as JSON how the extension is", status},
}

// Usage lists the verbs.
func Usage() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		fmt.Fprintf(&text, "  %-10s %-9s %s\n", name, verbs[name].args, verbs[name].does)
	}
	return text.String()
}

// Control does what the words say.
func (e *Extension) Control(words []string) (string, error) {
	if len(words) == 0 || len(words) > 2 {
		return "", fmt.Errorf("a verb and at most one argument are wanted:\n%s", Usage())
	}
	v, ok := verbs[words[0]]
	if !ok {
		return "", fmt.Errorf("no such verb: %q. Verbs are:\n%s", words[0], Usage())
	}
	arg := ""
	if len(words) == 2 {
		arg = words[1]
	}
	return v.run(e, arg)
}

func onOff(set func(*Extension, bool)) func(*Extension, string) (string, error) {
	return func(e *Extension, arg string) (string, error) {
		if arg != "on" && arg != "off" {
			return "", fmt.Errorf("on or off is wanted, not %q", arg)
		}
		set(e, arg == "on")
		return "", nil
	}
}

func connected(on bool) func(*Extension, string) (string, error) {
	return func(e *Extension, arg string) (string, error) { return "", e.SetConnected(arg, on) }
}

func slow(e *Extension, arg string) (string, error) {
	d, err := time.ParseDuration(arg)
	if err != nil || d < 0 {
		return "", fmt.Errorf("a duration is wanted, as 50ms, not %q", arg)
	}
	e.SetDelay(d)
	return "", nil
}

func switchFaults(e *Extension, arg string) (string, error) {
	if arg != "" {
		f, err := ParseFaults(arg)
		if err != nil {
			return "", err
		}
		e.SetFaults(f)
	}
	var on []string
	for fault, is := range e.Faults() {
		if is {
			on = append(on, string(fault))
		}
	}
	slices.Sort(on)
	return strings.Join(on, ","), nil
}

func executed(e *Extension, _ string) (string, error) {
	counts := e.Executed()
	if err := e.Recorded(); err != nil {
		return "", err
	}
	text, err := json.Marshal(counts)
	return string(text), err
}

func collisions(e *Extension, _ string) (string, error) {
	text, err := json.Marshal(e.Collisions())
	return string(text), err
}

func status(e *Extension, _ string) (string, error) {
	text, err := json.Marshal(e.Status())
	return string(text), err
}

// Status is how the extension is.
type Status struct {
	Enabled, VMMS      bool
	Ports              []string
	Flows, Connections int
	Hits, Misses, Lost uint64
	// PutOff is how many recirculations and samples a packet has put off, the most of any. DeferredQueueSize bounds it.
	PutOff int
	// Compared is how many entries of its tables of flows, connections and translations it has looked at.
	Compared uint64
	// Losses counts packets by why they have gone no further, beside those that flows drop.
	Losses map[string]uint64
}
