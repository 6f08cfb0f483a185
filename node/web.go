package node

import (
	"fmt"
	"os"
	"runtime"

	"github.com/weftnet/weft/models/httpserver"
)

// probes say whether a restart would help, and whether pods can be attached, or why not.
func (a *agent) probes() httpserver.Probes {
	return httpserver.Probes{
		Alive: a.liveness, Metrics: a.registry, Profiles: a.config.Profiling,
		Ready: func() (detail string, err error) {
			if err := a.health.Problems().All(); err != nil {
				return "", err
			}
			if notes := a.health.Noted().All(); notes != nil {
				return ", but\n" + notes.Error(), nil
			}
			return "", nil
		},
	}
}

// liveness says why only a restart can help the agent: what it waits for is no reason.
func (a *agent) liveness() error {
	if err := a.rounds.Overdue(); err != nil {
		return err
	}
	if !a.listening.Load() || runtime.GOOS == "windows" { // nobody removes a named pipe
		return nil
	}
	if _, err := os.Stat(a.config.CNISocket); os.IsNotExist(err) {
		return fmt.Errorf("cni-socket: %s is gone, and no pod can be attached; restart the agent, and see that nothing "+
			"cleans up its folder", a.config.CNISocket)
	}
	return nil
}
