package doctor

import (
	"context"
	"errors"
)

// ftpPasses is the agent's metric about FTP and TFTP.
const ftpPasses = "weft_conntrack_ftp"

// checkFTP tells what becomes of FTP and TFTP.
func checkFTP(ctx context.Context, config Config, agent metricsReader) []Finding {
	const (
		s       = subject("conntrack-ftp")
		helpers = "Open vSwitch's driver reads what passes TCP port 21 and UDP port 69, and may stop the machine"
	)
	found, err := agent.Samples(ctx)
	if errors.Is(err, errNotRunning) {
		return s.unknown("start the agent: it keeps FTP and TFTP from the driver", "the agent does not run")
	}
	if err != nil {
		return s.unknown("", "the agent's metrics: %v", err)
	}
	passes, told := found[ftpPasses]
	switch {
	case !told:
		return s.warning("install a newer weft.exe", helpers+"; this agent keeps nothing from it")
	case passes > 0:
		return s.unknown("set conntrack-ftp to false, and run `Restart-Service weft-node`, unless you know that this driver "+
			"has no helpers of its own", helpers+"; conntrack-ftp is true, so it gets them")
	case !config.Hosted:
		return s.warning("set chassis to hosted: only then the flows of br-int come by the agent", helpers+
			"; what pods send there is not kept from it: its ovn-controller runs on this node")
	}
	return s.ok(helpers + "; pods of this node have no such packets (conntrack-ftp is false)")
}
