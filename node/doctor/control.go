package doctor

import (
	"context"
	"fmt"
	"strings"
)

// daemonControl asks a daemon of Open vSwitch or OVN by its control socket, as ovs-appctl does;
// errAbsent where none answers.
type daemonControl interface {
	Control(ctx context.Context, daemon, command string) (string, error)
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
