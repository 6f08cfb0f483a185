package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"
)

// Config is what `weft node` is told, as far as an examination needs it.
type Config struct {
	// Version is that of this program.
	Version string
	// Problem is what is wrong with the configuration itself; nil if nothing is.
	Problem error

	Kubeconfig     string
	NodeName       string
	OVNSouthbound  string
	OVNRunDir      string
	OVSDatabase    string
	OVSOpenFlow    string // br-int's management connection; found beside the database's if empty
	OVSControl     string // where ovs-vswitchd takes commands; found beside the database's if empty
	DatapathType   string
	EncapAddress   netip.Addr
	UplinkMTU      int
	Encrypted      bool   // what the node's tunnels send, or part of it
	CNISocket      string // a unix socket, or a named pipe
	CNIConfDir     string
	CNIConfName    string
	MetricsAddress string
	// StateDir is where the agent keeps its records.
	StateDir string

	// Hosted: the node's ovn-controller runs on a chassis host, which dials TunnelAddress.
	Hosted            bool
	TunnelAddress     string
	TunnelCA          string
	TunnelCertificate string
	TunnelPrivateKey  string
	// TunnelName is the name that the agent's certificate must have.
	TunnelName string

	// Adapter is the uplink's name; the one that holds EncapAddress if empty. Windows only, as are
	// HNSNetwork, the name of the HNS network, and Service, that of the agent's service.
	Adapter    string
	HNSNetwork string
	Service    string
	// OVSDriver is the kind of Open vSwitch's driver; the one that is installed if empty. Windows only, as is
	// ConntrackLookup: "auto", "true" or "false".
	OVSDriver       string
	ConntrackLookup string
}

// check is one question. Its findings are in the order in which they are to be read.
type check struct {
	name    subject
	examine func(context.Context) []Finding
}

// patience is how long a check may take. HNS is known to hang (antrea 4702, 650); the other checks are
// not held up by one that does.
const patience = 20 * time.Second

// Run examines this machine.
func Run(ctx context.Context, config Config) *Report {
	report := &Report{
		Schema: Schema, Version: config.Version, Node: config.NodeName, OS: runtime.GOOS, Time: time.Now(),
		Findings: runChecks(ctx, patience, systemChecks(config)),
	}
	report.summarise()
	return report
}

// grace is how long checks that heed the end of their time have to say what they know.
const grace = 2 * time.Second

// runChecks asks all at once and returns the findings in the order of the checks.
func runChecks(ctx context.Context, patience time.Duration, checks []check) []Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	over := time.NewTimer(patience + grace)
	defer over.Stop()
	answers := make([]chan []Finding, len(checks))
	for i, c := range checks {
		answers[i] = make(chan []Finding, 1)
		go func() { answers[i] <- c.examine(ctx) }()
	}
	var findings []Finding
	hangs := false
	for i, c := range checks {
		if !hangs {
			select {
			case answer := <-answers[i]:
				findings = append(findings, answer...)
				continue
			case <-over.C:
				hangs = true
			}
		}
		select { // what has come meanwhile counts
		case answer := <-answers[i]:
			findings = append(findings, answer...)
		default:
			findings = append(findings, c.name.unknown("", "what it asks has not answered within %v", patience)...)
		}
	}
	return findings
}

// checkConfiguration is the first: what follows is of little use with a wrong configuration.
func checkConfiguration(config Config) []Finding {
	const s = subject("configuration")
	if config.Problem == nil {
		return s.ok("every key has a value that the agent accepts")
	}
	var findings []Finding
	for _, problem := range eachError(config.Problem) {
		findings = append(findings, s.failed("correct the key in the file that --config names, or give it as a flag", "%v",
			problem)...)
	}
	return findings
}

// eachError takes joined errors apart.
func eachError(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, eachError(e)...)
	}
	return all
}

// bytesText writes an amount as people do.
func bytesText(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	value, prefix := float64(n)/unit, "KMGTPE"
	for value >= unit && len(prefix) > 1 {
		value, prefix = value/unit, prefix[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, prefix[0])
}
