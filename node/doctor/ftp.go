package doctor

// checkFTP tells what becomes of FTP and TFTP.
func checkFTP(config Config) []Finding {
	const (
		s       = subject("conntrack-ftp")
		helpers = "Open vSwitch's driver reads what passes TCP port 21 and UDP port 69, and may stop the machine"
	)
	switch {
	case config.ConntrackFTP:
		return s.unknown("set conntrack-ftp to false, and run `Restart-Service weft-node`, unless you know that this driver "+
			"has no helpers of its own", helpers+"; conntrack-ftp is true, so it gets them")
	case !config.Hosted:
		return s.warning("set chassis to hosted: only then the flows of br-int come by the agent", helpers+
			"; what pods send there is not kept from it: its ovn-controller runs on this node")
	}
	return s.ok(helpers + "; pods of this node have no such packets (conntrack-ftp is false)")
}
