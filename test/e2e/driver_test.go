//go:build cluster

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/test/hyperv"
	weftlab "github.com/weftnet/weft/test/lab"
)

var windowsDatapath = flag.String("windows-datapath", weftlab.DatapathHyperV,
	"of the Windows nodes: linux or hyperv, as weftlab up has it")

var windowsFaults = flag.String("windows-faults", "all", "of the emulated extension: those that are on, as "+
	"docs/hyperv.md names them")

// emulated says whether Windows nodes have the emulated extension.
func emulated() bool { return *windowsDatapath == weftlab.DatapathHyperV }

func isWindows(node string) bool { return strings.HasPrefix(node, "w") }

// hasFault says whether the Windows nodes' datapath has a fault of the driver's. What fails by it docs/conformance.md
// names.
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

// collided says whether something had no answer since then, and each time because a Windows node's driver found the
// port of its translation taken: nat-port and dnat-port of docs/hyperv.md. The latter goes to a port of the server at
// which mostly nobody listens, so the client is refused.
func (h heard) collided(since time.Time) (bool, error) {
	var unanswered []string
	for _, r := range h.replies {
		if r.lost() != len(r.Unanswered) {
			return false, nil
		}
		unanswered = append(unanswered, r.Unanswered...)
	}
	if len(unanswered) == 0 || !emulated() {
		return false, nil
	}
	harmed := map[string]bool{} // by the client's port
	for _, node := range nodes {
		if !isWindows(node) {
			continue
		}
		out, err := cluster.Try("hyperv", node, "collisions")
		if err != nil {
			return false, err
		}
		var collisions []hyperv.Collision
		if err := json.Unmarshal([]byte(out), &collisions); err != nil {
			return false, fmt.Errorf("collisions of %s: %q: %w", node, out, err)
		}
		for _, c := range collisions {
			if c.Time.After(since) {
				harmed[strconv.Itoa(int(c.Client.Port()))] = true
			}
		}
	}
	for _, from := range unanswered {
		if !harmed[from[strings.LastIndex(from, ":")+1:]] {
			return false, nil
		}
	}
	fmt.Fprintf(os.Stderr, "the driver's faults with ports have met %v: %v\n", unanswered, h.failed())
	return true, nil
}
