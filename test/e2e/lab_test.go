//go:build cluster

// Package e2e tests Weft on a real cluster: `make cluster-test` builds what it needs and runs it.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weftnet/weft/test/lab/labtest"
)

// What most tests here say.
var (
	eventually = labtest.Eventually
	repository = labtest.Repository
)

var thorough = flag.Bool("thorough", false, "also what takes long: components that end in their orderly way, and "+
	"more certificates")

var labName = flag.String("lab", "weft-test", "the cluster's name")

var keep = flag.Bool("keep", false, "leave the cluster up, and use it if it is up already")

var gateway = flag.String("gateway", "host", "where gateway routers have their addresses from: host or own, as "+
	"weftlab up has it")

var podNetworks = flag.Bool("pod-networks", false, "nodes know the addresses of their pods by PodNetworks, as weftlab "+
	"up has it")

// uplinkMTU is that of ordinary Ethernet, unlike the lab's own: what a network in between does not take is
// told, and pods send fragments.
const uplinkMTU = 1500

// cluster is the dual-stack cluster of two Linux and two Windows nodes that all tests of the package
// share.
var cluster labtest.Lab

var nodes = []string{"l1", "l2", "w1", "w2"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if err := choose(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cluster = labtest.Lab{Name: *labName, StandIn: !emulated()}
	if !*keep {
		defer cluster.Down()
	}
	if !*keep || !cluster.Running() {
		options := []string{"--linux", "2", "--windows", "2", "--dual", "--controllers", "2", "--gateway", *gateway, "--mtu",
			strconv.Itoa(uplinkMTU), "--windows-datapath", *windowsDatapath,
			"--pod-networks=" + strconv.FormatBool(*podNetworks)}
		if emulated() {
			options = append(options, "--windows-faults", *windowsFaults)
		}
		if err := cluster.Up(options...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := deployWorkload(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := switchFaults(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code := cluster.Run(m); code != 0 {
		return code
	}
	if again, err := refusedAgain(); err != nil || len(again) > 0 {
		fmt.Fprintln(os.Stderr, "the guard of the Southbound refuses honest nodes again and again:", again, err)
		return 1
	}
	return 0
}

// refusedAgain are the requests of a node that the guard of the Southbound has refused three times or more, the last
// one more than a minute after the first. A node that nobody has stolen may be too early, as at its start.
func refusedAgain() (again []string, err error) {
	log, err := cluster.Try("logs", "weft-southbound")
	if err != nil {
		return nil, err
	}
	times := map[string][]time.Time{}
	for _, refusal := range refusals.FindAllStringSubmatch(log, -1) {
		at, err := time.Parse(time.RFC3339Nano, refusal[1])
		if err != nil {
			return nil, err
		}
		what := refusal[2] + ": " + someRow.ReplaceAllString(refusal[3], "…")
		times[what] = append(times[what], at)
	}
	for what, at := range times {
		if last := len(at) - 1; last >= 2 && at[last].Sub(at[0]) > time.Minute {
			again = append(again, fmt.Sprintf("%s, %d times", what, len(at)))
		}
	}
	return again, nil
}

var (
	refusals = regexp.MustCompile(`time=(\S+) .*a node asked for what is not its.* object=(\S+) .*refused="(.*)"`)
	someRow  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)
