package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftnet/weft/ovn/capability"
)

// metByAll is what the packets of every node with pods meet: each is tracked, looked at again, and sent. A record
// without one of these is of other packets than the node's.
var metByAll = []string{"ct", "output", "recirc"}

// Executed are the names of all datapath actions and of sets by their field that the node's packets have met since it
// first started, and of what its flows match, sorted. Only nodes on the emulated extension have them. It is an error if
// the record cannot be all of them: there is none, it lacks what every packet meets, or the emulator has not written
// down all that it knows.
func (w EmulatedWindows) Executed(ctx context.Context) ([]string, error) {
	command, err := w.HyperVCommand("executed")
	if err != nil {
		return nil, err
	}
	// What is met while this looks is in the record, and need not be in the answer.
	told, err := output(exec.CommandContext(ctx, command[0], command[1:]...))
	if err != nil {
		return nil, fmt.Errorf("ask the emulated extension of %s: %w", w.node, err)
	}
	names, err := readRecord(w.lab.files.machine(w.node, "hyperv", filepath.Base(hypervRecord)))
	if err != nil {
		return nil, fmt.Errorf("what packets of %s have met: %w", w.node, err)
	}
	if err := checkRecord(names, told); err != nil {
		return names, fmt.Errorf("what packets of %s have met: %w", w.node, err)
	}
	return names, nil
}

// output is what a command prints; the error has what it complains of.
func output(command *exec.Cmd) ([]byte, error) {
	text, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	return text, err
}

// readRecord reads the names that emulators of one node have written, one after the other.
func readRecord(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("there is no record: %w", err)
	}
	names := strings.Split(string(text), "\n")
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }), nil
}

// checkRecord compares a record with what the emulator tells of its own time, as JSON.
func checkRecord(names []string, told []byte) error {
	var counts map[string]uint64
	if err := json.Unmarshal(told, &counts); err != nil {
		return fmt.Errorf("the emulated extension says %q: %w", told, err)
	}
	lacks := func(wanted []string) []string {
		return slices.DeleteFunc(wanted, func(name string) bool { return slices.Contains(names, name) })
	}
	var known []string
	for name := range counts {
		known = append(known, name)
	}
	slices.Sort(known)
	if missing := lacks(known); len(missing) > 0 {
		return fmt.Errorf("the record lacks %q, which packets or flows have met: it is not the emulated extension's",
			missing)
	}
	if missing := lacks(slices.Clone(metByAll)); len(missing) > 0 {
		return fmt.Errorf("the record lacks %q, which packets of each node with pods meet: it proves nothing", missing)
	}
	return nil
}

// Forbidden is an error for each name that the table of what Windows' datapath cannot do forbids.
func Forbidden(node string, executed []string) error {
	var errs []error
	for _, name := range executed {
		if feature := capability.Forbidden(name); feature != "" {
			errs = append(errs, fmt.Errorf("packets or flows of %s met %q, which the extension of the Hyper-V switch "+
				"does not do (%s)", node, name, feature))
		}
	}
	return errors.Join(errs...)
}
