//go:build linux

package chassis

import (
	"context"
	"net"
	"strings"

	"github.com/weftnet/weft/node/unixctl"
)

// control runs a command of a daemon by its control socket, as ovn-appctl does.
func control(ctx context.Context, socket, command string, args ...string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	answer, err := unixctl.Run(ctx, conn, command, args...)
	return strings.TrimSpace(answer), err
}
