//go:build ansible

// Package ansible installs Weft by its playbooks on servers with a systemd of their own: `make test-ansible` builds
// what it needs and runs it.
package ansible

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/weftnet/weft/test/lab/labtest"
)

// What most tests here say.
var (
	eventually = labtest.Eventually
	repository = labtest.Repository
)

// waits are for what has to be gone before the next test changes what its removal needs.
var waits = []string{"--wait", "--timeout=60s"}

var labName = flag.String("lab", "weft-ansible", "the lab's name")

var keep = flag.Bool("keep", false, "leave the lab up, and use it if it is up already")

var kernel = flag.Bool("kernel", false, "the nodes have kernels of their own, and Open vSwitch the kernel's datapath")

var dual = flag.Bool("dual", false, "the cluster has both address families")

var windows = flag.Bool("windows", false, "a Windows node is beside them, by the shipped programs under Wine")

// As whom a test runs this program: see [beWindowsNode].
var (
	asWindowsNode = flag.String("windows-node", "", "run no test, but a node like a Windows one with its state in "+
		"this folder")
	nodeAddress = flag.String("address", "", "that node's")
)

// servers is the lab that all tests of the package share: three centrals and two Linux nodes, of both releases.
var servers labtest.Lab

var hosts = map[string]string{"c1": "bookworm", "c2": "bookworm", "c3": "bookworm", "l1": "bookworm", "l2": "trixie"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if *asWindowsNode != "" {
		if err := beWindowsNode(*asWindowsNode, *nodeAddress); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	servers.Name = *labName
	dir, err := os.MkdirTemp("", "weft-ansible-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if current, err = copyRelease(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if !*keep {
		defer servers.Down()
	}
	if !*keep || !servers.Running() {
		list := "c1,c2,c3,l1,l2:trixie"
		if *kernel {
			list = "c1,c2,c3,l1+kernel,l2:trixie+kernel"
		}
		up := []string{"--hosts", list}
		if *dual {
			up = append(up, "--dual")
		}
		if *windows {
			up = append(up, "--windows", "1")
		}
		if err := servers.Up(up...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := keepFirstState(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return servers.Run(m)
}
