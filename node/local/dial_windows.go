package local

import (
	"context"
	"net"
	"strings"

	"github.com/Microsoft/go-winio"
)

// DialSocket connects to what Open vSwitch calls a unix socket: on Windows a named pipe, whose name
// is the socket's path without its slashes and backslashes (lib/stream-windows.c, remove_slashes).
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, pipeOf(path))
}

func pipeOf(path string) string {
	return `\\.\pipe\` + strings.NewReplacer("/", "", `\`, "").Replace(path)
}
