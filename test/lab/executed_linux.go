package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/test/lab/machine"
)

// Executed are the names of all datapath actions and of sets by their field that the packets of a Windows node have
// met since it first started, and of what its flows match, sorted. Only nodes on the emulated extension have them.
func (l *Lab) Executed(name string) ([]string, error) {
	if err := l.checkWindows(name); err != nil {
		return nil, err
	}
	if !l.emulated() {
		return nil, fmt.Errorf("the Windows nodes of lab %q have no emulated extension: start one without "+
			"--windows-datapath linux", l.Name)
	}
	text, err := os.ReadFile(filepath.Join(machine.Dir(l.dir, name), "hyperv", filepath.Base(hypervRecord)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what %s has executed: %w", name, err)
	}
	names := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }), nil
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
