package node

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/ptr"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/unixctl"
)

const (
	// versionFresh is how long the answer of ovs-vswitchd counts. It changes only when the daemon is restarted.
	versionFresh = time.Minute
	// versionTime bounds the question: a look at the node does not wait for a daemon that is stuck.
	versionTime = time.Second
)

// switchVersion is the version of the node's ovs-vswitchd. The reconciler alone uses it.
type switchVersion struct {
	asked time.Time
	told  string
}

// of is what the running daemon says. If it has never answered, it is what the database says. Not the daemon writes it
// there, but a start script, and often nobody.
func (v *switchVersion) of(ctx context.Context, c nodeconfig.Config, root *vswitch.OpenvSwitch) string {
	if time.Since(v.asked) >= versionFresh {
		v.asked = time.Now()
		v.told = cmp.Or(askVersion(ctx, switchSockets(c)), v.told)
	}
	return cmp.Or(v.told, ptr.Deref(root.OVSVersion, ""))
}

// askVersion is "" where none of the sockets answers.
func askVersion(ctx context.Context, sockets []string) string {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	for _, socket := range sockets {
		answer, err := unixctl.Call(ctx, socket, unixctl.VersionCommand)
		if err == nil {
			return unixctl.Version(answer)
		}
		slog.DebugContext(ctx, "ovs-vswitchd does not tell its version", "error", err)
	}
	return ""
}
