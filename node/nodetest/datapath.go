package nodetest

import "os"

// DatapathVariable of the environment is the type of datapath that tests with packets use, "netdev" where it is not
// set. With "system", the kernel's, the tests need a kernel that has it: `make test-kernel` runs them on one of their
// own.
const DatapathVariable = "WEFT_TEST_DATAPATH"

// Datapath is the type of datapath that tests with packets use, as Open vSwitch's Bridge.datapath_type has it.
func Datapath() string {
	if kind := os.Getenv(DatapathVariable); kind != "" {
		return kind
	}
	return "netdev"
}

// Userspace tells whether the datapath is a program that reads copies of frames, and not the kernel.
func Userspace() bool { return Datapath() == "netdev" }
