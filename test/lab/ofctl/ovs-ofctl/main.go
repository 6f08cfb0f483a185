// Command ovs-ofctl is the lab's stand-in for ovs-ofctl.exe, see package ofctl. For Windows it is built as
//
//	GOOS=windows go build -o bin/lab/ovs-ofctl.exe ./test/lab/ofctl/ovs-ofctl
package main

import (
	"fmt"
	"os"

	"github.com/weftnet/weft/test/lab/ofctl"
)

func main() {
	code, err := ofctl.Call(ofctl.Address, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ovs-ofctl:", err)
		code = 1
	}
	os.Exit(code)
}
