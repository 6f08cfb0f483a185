package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// firewall is Windows' own, as the registry holds it.
type firewall struct {
	// Profiles that are on ("domain", "private", "public").
	Profiles []string
	Rules    []firewallRule
	// Unread are rules that are written in a way which is not known here.
	Unread []string
}

// firewallRule is an inbound or outbound rule.
type firewallRule struct {
	Name     string
	Active   bool
	Allow    bool
	Inbound  bool
	Protocol int // IANA's number, 0 for all
	Ports    []portRange
	// From are the addresses to which the rule is limited, as the registry has them; none means all.
	From []string
	// Narrow: the rule asks for more than a port and its callers, such as a program, a service or an interface.
	Narrow bool
}

// general says whether a rule is for all programs and callers.
func (r firewallRule) general() bool { return !r.Narrow && len(r.From) == 0 }

// portRange is a range of local ports; none means all.
type portRange struct{ from, to uint16 }

type firewallReader interface {
	Firewall() (firewall, error)
}

// parseRule reads a rule as the registry writes it (MS-FASP 2.2.43 gives the grammar):
//
//	v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=17|LPort=6081|Name=GENEVE|
//
// Of keys that appear several times every value counts.
func parseRule(text string) (firewallRule, error) {
	version, rest, ok := strings.Cut(text, "|")
	if !ok || !strings.HasPrefix(version, "v") {
		return firewallRule{}, fmt.Errorf("%q is not a rule of Windows' firewall", text)
	}
	rule := firewallRule{}
	for field := range strings.SplitSeq(rest, "|") {
		if field == "" {
			continue
		}
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return firewallRule{}, fmt.Errorf("%q in a rule of Windows' firewall has no value", field)
		}
		if err := rule.set(key, value); err != nil {
			return firewallRule{}, err
		}
	}
	return rule, nil
}

func (r *firewallRule) set(key, value string) error {
	switch key {
	case "Action":
		r.Allow = value == "Allow" || value == "ByPass"
	case "Active":
		r.Active = value == "TRUE"
	case "Dir":
		r.Inbound = value == "In"
	case "Name":
		r.Name = value
	case "Protocol":
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return fmt.Errorf("protocol %q in a rule of Windows' firewall: %w", value, err)
		}
		r.Protocol = int(n)
	case "LPort", "LPort2_10":
		ports, err := parsePorts(value)
		if err != nil {
			r.Narrow = true // "RPC", "IPHTTPS", "Teredo": ports that the system chooses
			return nil
		}
		r.Ports = append(r.Ports, ports)
	case "RA4", "RA6", "RA42", "RA62":
		r.From = append(r.From, value)
	case "App", "Svc", "LA4", "LA6", "RPort", "RPort2_10", "IF", "IFType", "AppPkgId", "LUAuth", "RUAuth",
		"RMauth", "Security":
		r.Narrow = r.Narrow || !(key == "App" && value == "System")
	}
	return nil
}

func parsePorts(value string) (portRange, error) {
	from, to, isRange := strings.Cut(value, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 16)
	if err != nil {
		return portRange{}, err
	}
	last, err := strconv.ParseUint(to, 10, 16)
	if err != nil {
		return portRange{}, err
	}
	if last < first {
		return portRange{}, fmt.Errorf("%q ends before it begins", value)
	}
	return portRange{uint16(first), uint16(last)}, nil
}

// concerns says whether a rule may decide over packets that come to a port.
func (r firewallRule) concerns(protocol int, port uint16) bool {
	if !r.Active || !r.Inbound || r.Protocol != 0 && r.Protocol != protocol && r.Protocol != 256 {
		return false
	}
	for _, ports := range r.Ports {
		if ports.from <= port && port <= ports.to {
			return true
		}
	}
	return len(r.Ports) == 0 && r.general()
}

// Protocols, by IANA's numbers.
const (
	protocolTCP = 6
	protocolUDP = 17
)

// openPort is a port that others must reach.
type openPort struct {
	protocol int
	port     uint16
	use      string
	// below: the packets are meant for Open vSwitch's driver, which by its source takes them out of the
	// switch before the host's stack, and so the firewall, sees them (OvsDetectTunnelRxPkt in Actions.c of
	// 3.7.1). Antrea's users are told to switch the firewall off.
	below bool
	// callers are the only hosts that have to reach it; empty: all hosts of the cluster.
	callers string
}

func (p openPort) String() string {
	if p.protocol == protocolUDP {
		return fmt.Sprintf("UDP %d (%s)", p.port, p.use)
	}
	return fmt.Sprintf("TCP %d (%s)", p.port, p.use)
}

// checkFirewall looks for rules that let the cluster's packets in. A rule that blocks wins over one that
// allows.
func checkFirewall(reader firewallReader, ports []openPort) []Finding {
	const s = subject("firewall")
	f, err := reader.Firewall()
	if err != nil {
		return s.unknown("run `Get-NetFirewallProfile` and `Get-NetFirewallRule`", "%v", err)
	}
	if len(f.Profiles) == 0 {
		return s.ok("Windows' firewall is off; a firewall between nodes must let %s in", portList(ports))
	}
	var findings []Finding
	for _, p := range ports {
		findings = append(findings, assessPort(s, f, p)...)
	}
	return findings
}

func assessPort(s subject, f firewall, p openPort) []Finding {
	protocol := map[int]string{protocolTCP: "TCP", protocolUDP: "UDP"}[p.protocol]
	open := fmt.Sprintf("`New-NetFirewallRule -DisplayName \"weft %s\" -Direction Inbound -Protocol %s -LocalPort %d "+
		"-Action Allow`", p.use, protocol, p.port)
	var allowed, from, narrow string
	for _, rule := range f.Rules {
		switch {
		case !rule.concerns(p.protocol, p.port):
		case !rule.Allow && rule.general():
			return s.failed("remove that rule, or except the port from it", "the rule %q keeps %v out", rule.Name, p)
		case rule.Allow && rule.general():
			allowed, from = rule.Name, ""
		case rule.Allow && !rule.Narrow && p.callers != "" && allowed == "":
			allowed, from = rule.Name, fmt.Sprintf(" from %s alone, which must have %s",
				strings.Join(rule.From, ", "), p.callers)
		default:
			narrow = rule.Name
		}
	}
	switch {
	case allowed != "" && len(f.Unread) > 0:
		return s.unknown("see that none of these blocks it", "the rule %q lets %v in%s, but %d rules are not understood: "+
			"%s", allowed, p, from, len(f.Unread), shorten(f.Unread, 3))
	case allowed != "":
		return s.ok("the rule %q lets %v in%s", allowed, p, from)
	case narrow != "":
		return s.unknown("see that the rule fits, or run "+open, "the rule %q concerns %v, for certain programs or "+
			"addresses only", narrow, p)
	}
	if p.below {
		return s.warning("run "+open, "the firewall is on (%s), and no rule lets %v in; Open vSwitch's driver should take "+
			"these packets before the firewall does, which nobody has tried", strings.Join(f.Profiles, ", "), p)
	}
	return s.failed("run "+open, "the firewall is on (%s), and no rule lets %v in", strings.Join(f.Profiles, ", "), p)
}

func portList(ports []openPort) string {
	var texts []string
	for _, p := range ports {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}
