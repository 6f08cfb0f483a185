package doctor

import (
	"context"
	"errors"
	"slices"
)

// Metrics of the agent about the lookup before connections are committed.
const (
	lookupFound    = "weft_conntrack_lookup_found"
	lookupUsed     = "weft_conntrack_lookup"
	lookupFailures = "weft_conntrack_lookup_failures_total"
)

// checkLookup tells what the agent has found out about Open vSwitch's driver, which may take a packet that was tracked
// in one zone for another one in the next, and whether flows have the cure, a lookup before connections are committed.
//
// The doctor sends no packets itself. Without the agent there is no bridge on an enabled extension to send them by, and
// beside the agent it would take away the flows that the agent's own probe has just made.
func checkLookup(ctx context.Context, config Config, agent metricsReader) []Finding {
	const s = subject("conntrack-lookup")
	found, err := agent.Samples(ctx)
	if errors.Is(err, errNotRunning) {
		return s.unknown("start the agent: it examines the driver when it has its switch", "the agent does not run")
	}
	if err != nil {
		return s.unknown("", "the agent's metrics: %v", err)
	}
	used, told := found[lookupUsed]
	if !told {
		return s.unknown("install a newer weft.exe", "the agent tells nothing of it")
	}
	findings := assessLookup(s, config, found, used > 0)
	if failures := found[lookupFailures]; failures > 0 {
		findings = append(findings, s.warning("report it, with the agent's log and the versions of OVN and Open vSwitch",
			"%.0f messages of ovn-controller's could not be read by the agent. Their flows are in br-int without what the "+
				"datapath needs, or drop packets: some connections may fail", failures)...)
	}
	return findings
}

const (
	lookupRemedy = "set conntrack-lookup to auto, and run `Restart-Service weft-node`"
	lookupFault  = "the driver takes packets of one connection tracking zone for others in the next"
)

func assessLookup(s subject, config Config, found samples, used bool) []Finding {
	answers, _ := found.of(lookupFound)
	needed, unneeded := slices.Contains(answers, "needed"), slices.Contains(answers, "unneeded")
	switch {
	case needed && !used:
		return s.warning(lookupRemedy, lookupFault+
			", and conntrack-lookup is false: pings between pods of this node fail, and connections by a ClusterIP to an "+
			"endpoint on the client's node")
	case (needed || used && !unneeded) && !config.Hosted:
		return s.warning("set chassis to hosted: only then the flows of br-int come by the agent",
			"the agent's own flows look packets up before connections are committed, and those of br-int do not: "+
				"its ovn-controller runs on this node")
	case needed:
		return s.ok(lookupFault + "; flows have the lookup that cures it")
	case unneeded:
		return s.ok("the driver needs no lookup before connections are committed, and flows have none")
	case len(answers) > 0 && !used:
		return s.warning(lookupRemedy, "it is not known whether the driver needs a lookup before connections are committed, "+
			"and conntrack-lookup is false; the agent's log has the reason")
	case len(answers) > 0:
		return s.unknown("see the agent's log for the reason",
			"it is not known whether the driver needs a lookup before connections are committed; flows have it, to be safe")
	case used && config.ConntrackLookup == "true":
		return s.ok("flows have the lookup before connections are committed, whether the driver needs it or not " +
			"(conntrack-lookup is true)")
	}
	return s.unknown("look again when the agent has its switch, see the check hns-network",
		"the agent has not examined the driver yet")
}
