// Pktmon is pktmon.exe on the lab's Windows nodes, a stand-in for Windows' Packet Monitor: see package
// [github.com/weftnet/weft/test/pktmon].
package main

import (
	"cmp"
	"os"

	"github.com/weftnet/weft/test/pktmon"
)

func main() {
	os.Exit(pktmon.Main(cmp.Or(os.Getenv(pktmon.AddressVariable), pktmon.Address), os.Args[1:], os.Stdout))
}
