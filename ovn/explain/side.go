package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/policy"
)

// Side is what the policies of one of a connection's ends say, tier by tier.
type Side struct {
	Direction policy.Direction
	Pod       string // "" of who is no pod
	Allowed   bool
	Findings  []Finding
}

// Finding is what a tier says.
type Finding struct {
	Tier string // "" where it is of none
	Text string
}

// known is a pod's key, "" of who is none.
func (p *pod) known() string {
	if p.namespace == "" {
		return ""
	}
	return p.key()
}

// stages have the ACLs of policies.
var stages = [...]acl.Stage{policy.Ingress: acl.ToPort, policy.Egress: acl.FromPortLB}

// side reads what was decided about a pod out of the ACLs that a packet met at its end. No policy has any at the
// port between two switches: of those there only one that refuses counts.
func (c *Cluster) side(d policy.Direction, p *pod, steps []acl.Step) Side {
	s := Side{Direction: d, Pod: p.known(), Allowed: true}
	atRouter := slices.IndexFunc(steps, func(step acl.Step) bool {
		return (step.Stage == acl.ToPort) != (d == policy.Ingress) && refuses(step.Rule)
	})
	if atRouter < 0 || d == policy.Egress {
		c.tiers(&s, p, steps)
	}
	if atRouter >= 0 && s.Allowed {
		s.Allowed = false
		s.add("at the router", "%s", c.finding(steps[atRouter].Rule, nil, d))
	}
	return s
}

func (s *Side) add(tier, format string, args ...any) {
	s.Findings = append(s.Findings, Finding{tier, fmt.Sprintf(format, args...)})
}

func refuses(r *acl.Rule) bool {
	return r.Action == nb.ACLActionDrop || r.Action == nb.ACLActionReject
}

// tiers adds what each tier says, down to the one that decides.
func (c *Cluster) tiers(s *Side, p *pod, steps []acl.Step) {
	d := s.Direction
	selected := false
	for tier := range policy.Baseline + 1 {
		var about []*policy.Policy
		if p.why == "" {
			about = c.selecting(p, tier, d)
			selected = selected || len(about) > 0
		}
		found, decided := false, false
		for _, step := range steps {
			before := d == policy.Egress && tier == 0 && step.Stage == acl.FromPort
			if isSilent(step.Rule) || !before && (step.Stage != stages[d] || policy.Tier(step.Rule.Tier) != tier) {
				continue
			}
			found = true
			s.add(tierName(tier), "%s", c.finding(step.Rule, about, d))
			if refuses(step.Rule) {
				s.Allowed = false
				return
			}
			decided = decided || step.Rule.Action != nb.ACLActionPass && !before // the other stage follows
		}
		if decided {
			return
		}
		if !found && len(about) > 0 {
			s.add(tierName(tier), "no rule of %s matches", policyNames(about))
		}
	}
	switch {
	case p.why != "" && p.namespace != "":
		s.add("", "the pod %s", p.why)
	case p.why != "":
		s.add("", "%s %s: no policy is about it", p.addresses[0], p.why)
	case !selected && len(s.Findings) == 0:
		s.add("", "no policy selects it: allowed by default")
	default:
		s.add("", "nothing refuses it: allowed by default")
	}
}

// isSilent tells an ACL that says what would hold without it: that nobody has decided, or that a Service admits
// its client.
func isSilent(r *acl.Rule) bool {
	return strings.HasPrefix(r.Owner, "Policies/") && strings.HasPrefix(r.Key, "default/") || strings.HasPrefix(r.Owner,
		"Service/") && !refuses(r)
}

// notAdmitted is said where a Service's ACL refuses a client.
func notAdmitted(service string) string {
	return "Deny: the client is in none of spec.loadBalancerSourceRanges of Service " + service
}

func tierName(t policy.Tier) string {
	if t == 0 {
		return "before all"
	}
	return t.String()
}

// finding says which rule of which policy an ACL is; about are the policies of its tier that select the pod.
func (c *Cluster) finding(r *acl.Rule, about []*policy.Policy, d policy.Direction) string {
	if text, ok := OwnRule(r.Owner, r.Key, refuses(r)); ok {
		return text
	}
	m, ok := ParseMark(r.Owner, r.Key)
	if !ok {
		return fmt.Sprintf("%s: %s, which is not a policy's", r.Action, r)
	}
	p := c.policies[r.Owner]
	gone := ""
	if p == nil {
		gone = ", which the API server has no more"
	}
	if m.Rule == "" {
		by := m.Policy()
		if len(about) > 0 {
			by = policyNames(about)
		}
		return fmt.Sprintf("Deny: isolated by %s%s, no rule of which allows it", by, gone)
	}
	text := actions[r.Action] + " by " + m.Policy() + gone + ", " + m.Rule
	if p != nil {
		for i := range p.Rules {
			if rule := &p.Rules[i]; rule.Field() == m.Rule && rule.Name != "" {
				text += fmt.Sprintf(" (%q)", rule.Name)
			}
		}
	}
	if m.Port != "" {
		text += ", port " + m.Port
	}
	return text
}

// OwnRule says what an ACL decides that is no policy's but Weft's own; ok is false of any other.
func OwnRule(owner, key string, refuses bool) (text string, ok bool) {
	switch kind, name, _ := strings.Cut(owner, "/"); {
	case kind == "Service" && refuses:
		text = notAdmitted(name)
	case kind == "Policies" && key == "self":
		text = "Accept: a pod reaches itself by its Service, whatever policies say"
	case (kind == "Policies" || kind == "Node") && key == "host":
		text = "Accept: a node reaches the pods on it, whatever policies say"
	case kind == "Policies" && key == "outside":
		text = "Deny: the source has the address of a node and is none"
	case kind == "Policies" && key == "link-local":
		text = "Deny: pods have no link-local addresses where there are policies"
	case kind == "Policies" && key == "flooded":
		text = "Deny: pods have no broadcast and no multicast where there are policies"
	case kind == "Policies" && key == "host/local":
		text = "Accept: a node sends to the pods on it, whatever policies say"
	}
	return text, text != ""
}

// actions are the policies' words for those of ACLs.
var actions = map[nb.ACLAction]string{nb.ACLActionAllowRelated: "Accept", nb.ACLActionDrop: "Deny",
	nb.ACLActionPass: "Pass"}

// Action is a policy's word for what an ACL does.
func Action(of nb.ACLAction) string { return actions[of] }

// Mark is what an ACL of a policy stands for.
type Mark struct {
	Kind      policy.Kind
	Name      string           // of the policy, with its namespace
	Direction policy.Direction // of Rule, or of what the policy isolates its pods from
	// Rule is the rule's field, as "spec.ingress[0]"; "" of the isolation.
	Rule string
	// Port is the named port that the ACL is for, as "http (8080/tcp)".
	Port string
}

// ParseMark reads the owner and the key of an ACL's row; ok is false of one that is not a policy's.
func ParseMark(owner, key string) (m Mark, ok bool) {
	kind, name, _ := strings.Cut(owner, "/")
	m.Kind, m.Name = policy.Kind(kind), name
	if !slices.Contains(kinds, m.Kind) {
		return m, false
	}
	parts := strings.Split(key, "/")
	switch parts[0] {
	case policy.Ingress.String():
		m.Direction = policy.Ingress
	case policy.Egress.String():
		m.Direction = policy.Egress
	default:
		return m, false
	}
	if len(parts) > 1 {
		m.Rule = fmt.Sprintf("spec.%s[%s]", parts[0], parts[1])
	}
	if len(parts) == 5 {
		m.Port = fmt.Sprintf("%s (%s/%s)", parts[2], parts[4], parts[3])
	}
	return m, true
}

var kinds = []policy.Kind{policy.NetworkPolicy, policy.ClusterNetworkPolicy, policy.AdminNetworkPolicy,
	policy.BaselineAdminNetworkPolicy}

// Policy is its kind and name.
func (m Mark) Policy() string { return string(m.Kind) + " " + m.Name }

// Namespace is the policy's; "" of a cluster-wide one.
func (m Mark) Namespace() string {
	if m.Kind != policy.NetworkPolicy {
		return ""
	}
	namespace, _, _ := strings.Cut(m.Name, "/")
	return namespace
}

// maxNames bounds a list of names.
const maxNames = 5

// listing is some names, and how many more there are.
func listing(names []string) string {
	if more := len(names) - maxNames; more > 1 {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

func policyNames(list []*policy.Policy) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.String()
	}
	return listing(names)
}
