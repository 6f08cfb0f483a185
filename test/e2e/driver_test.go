//go:build cluster

package e2e

import (
	"flag"
	"fmt"
	"strings"

	"github.com/weftnet/weft/test/hyperv"
	weftlab "github.com/weftnet/weft/test/lab"
)

var windowsDatapath = flag.String("windows-datapath", weftlab.DatapathHyperV, "of the Windows nodes: linux or hyperv, as weftlab up has it")

var windowsFaults = flag.String("windows-faults", "all", "of the emulated extension: those that are on, as docs/hyperv.md names them")

// emulated says whether Windows nodes have the emulated extension.
func emulated() bool { return *windowsDatapath == weftlab.DatapathHyperV }

func isWindows(node string) bool { return strings.HasPrefix(node, "w") }

// hasFault says whether the Windows nodes' datapath has a fault of the driver's. What fails by it docs/conformance.md names.
func hasFault(fault hyperv.Fault) bool {
	faults, err := hyperv.ParseFaults(*windowsFaults)
	if err != nil { // switchFaults has read them
		panic(err)
	}
	return emulated() && faults[fault]
}

// switchFaults gives all Windows nodes the faults that the tests are told of.
func switchFaults() error {
	if !emulated() {
		return nil
	}
	if _, err := hyperv.ParseFaults(*windowsFaults); err != nil {
		return fmt.Errorf("-windows-faults: %w", err)
	}
	for _, node := range nodes {
		if !isWindows(node) {
			continue
		}
		if _, err := cluster.Try("hyperv", node, "faults", *windowsFaults); err != nil {
			return err
		}
	}
	return nil
}

// executed tells what packets of Windows nodes have met. It is an error if Windows does something else there.
func executed() error {
	if !emulated() {
		return nil
	}
	names, err := cluster.Try("executed")
	fmt.Println("datapath actions of Windows nodes:\n" + names)
	return err
}
