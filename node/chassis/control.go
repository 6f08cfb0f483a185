//go:build linux

package chassis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// control runs a command of a daemon by its control socket, as ovn-appctl does.
func control(ctx context.Context, socket, command string, args ...string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if args == nil {
		args = []string{}
	}
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": 0, "method": command, "params": args}); err != nil {
		return "", err
	}
	var reply struct {
		Result string  `json:"result"`
		Error  *string `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(conn, 1<<20)).Decode(&reply); err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	if reply.Error != nil {
		return "", errors.New(*reply.Error)
	}
	return strings.TrimSpace(reply.Result), nil
}
