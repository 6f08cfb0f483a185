// Package ovncontroller asks the ovn-controller that runs on the node itself, by the control socket that ovn-appctl
// uses.
package ovncontroller

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/unixctl"
)

// program is the one whose control sockets are looked for.
const program = "ovn-controller"

// Folders are where ovn-controller may have its control socket.
func Folders(c nodeconfig.Config) []string {
	if c.OVNRunDir != "" {
		return []string{c.OVNRunDir}
	}
	first, _, _ := strings.Cut(c.OVSDatabase, ",")
	path, isUnix := strings.CutPrefix(first, "unix:")
	if !isUnix {
		return []string{nodeconfig.DefaultOVNRunDir}
	}
	folder := filepath.Dir(path)
	return []string{folder, filepath.Join(filepath.Dir(folder), "ovn")}
}

// Status returns nil when the node's ovn-controller runs and is connected to the Southbound: without it no new pod gets
// flows. The error says what to do.
func Status(ctx context.Context, c nodeconfig.Config) error {
	folders := Folders(c)
	problem := fmt.Errorf("ovn-controller is not running: no control socket answers in %s; start it, or set ovn-rundir "+
		"to its folder", strings.Join(folders, " or "))
	for _, socket := range unixctl.Sockets(folders, program) {
		answer, err := connectionStatus(ctx, socket)
		if err != nil {
			continue // left over from a process that died
		}
		if answer = strings.TrimSpace(answer); answer == "connected" {
			return nil
		}
		problem = fmt.Errorf("ovn-controller is %s: it has no Southbound; see its log, and whether ovn-southbound is right",
			answer)
	}
	return problem
}

func connectionStatus(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return unixctl.Call(ctx, socket, "connection-status")
}
