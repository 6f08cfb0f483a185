package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
)

// daemonControl asks a daemon of Open vSwitch or OVN by its control socket, as ovs-appctl does;
// errAbsent where none answers.
type daemonControl interface {
	Control(ctx context.Context, daemon, command string) (string, error)
}

// askDaemon runs a command without arguments, until ctx's deadline.
func askDaemon(ctx context.Context, conn net.Conn, command string) (string, error) {
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": 0, "method": command, "params": []string{}}); err != nil {
		return "", err
	}
	var reply struct {
		Result string  `json:"result"`
		Error  *string `json:"error"`
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	if reply.Error != nil {
		return "", fmt.Errorf("%s: %s", command, *reply.Error)
	}
	return reply.Result, nil
}

// vswitchVersion is the running daemon's word, "ovs-vswitchd (Open vSwitch) 3.7.1"; without it the
// database's, which not the daemon writes but a start script, and on Windows often nobody.
func vswitchVersion(ctx context.Context, daemons daemonControl, reader vswitchReader) (string, error) {
	answer, problem := daemons.Control(ctx, "ovs-vswitchd", "version")
	first, _, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	if words := strings.Fields(first); problem == nil && len(words) > 0 {
		return words[len(words)-1], nil
	} else if problem == nil {
		problem = fmt.Errorf("ovs-vswitchd answers %q", answer)
	}
	o, err := reader.OpenVSwitch(ctx)
	if err == nil && o.Root != nil && o.Root.OVSVersion != nil {
		return *o.Root.OVSVersion, nil
	}
	return "", fmt.Errorf("neither ovs-vswitchd nor the database says its version: %w", problem)
}
