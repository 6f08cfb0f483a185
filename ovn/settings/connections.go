package settings

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/models/contract"
)

// DriverConnections are the places of the table that a Windows node has for all that it tracks: Conntrack.h,
// CT_MAX_ENTRIES.
const DriverConnections = 1 << 21

// The default bounds share the table out to the last place, so that no zone takes another's: to 110 pods, which is
// kubelet's default of maxPods, and to the zones that all of them share.
// 110*defaultPodConnections + contract.Shares*defaultNodeConnections = DriverConnections.
const (
	defaultPodConnections  = 1 << 13
	defaultNodeConnections = 1 << 14
)

// A TCP connection that has ended has its place for 30 s, and up to two minutes more until the driver looks for what
// has expired. So probes alone take
//   - of a pod's zone 900: three containers, each with two probes per second, which is as often as Kubernetes asks;
//   - of the host's zone 3,300: 110 pods, each with two probes per 10 s, which is Kubernetes' default.
const (
	leastPodConnections  = 1 << 10
	leastNodeConnections = 1 << 12
)

// HostConnections is how many connections the host of a Windows node may have with pods, 0: not bounded.
func (s *Settings) HostConnections() int { return contract.HostShare * s.NodeConnections }

func (c Config) checkConnections() error {
	return errors.Join(
		checkBound("windows-pod-connections", c.WindowsPodConnections, leastPodConnections),
		checkBound("windows-node-connections", c.WindowsNodeConnections, leastNodeConnections))
}

func checkBound(key string, bound, least int) error {
	problem := ""
	switch {
	case bound == 0 || bound >= least && bound <= DriverConnections:
		return nil
	case bound < least:
		problem = "kubelet's probes and what else counts would not fit"
	default:
		problem = "a node has no room for as many"
	}
	return fmt.Errorf("%s: %d is no bound: %s; give %d to %d, or 0 for no bound", key, bound, problem, least,
		DriverConnections)
}
