package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policies"
	"github.com/weftnet/weft/ovn/policy"
)

// Summary tells of each policy whom it selects and what its rules are, in the order in which they are asked.
func (c *Cluster) Summary() string {
	var b strings.Builder
	for _, o := range c.order {
		fmt.Fprintf(&b, "%s (tier %s%s)\n", o, o.Tier, priority(o))
		fmt.Fprintf(&b, "  selects %s\n", c.pick(o.Subject))
		if c.crowdedOut(o) {
			b.WriteString("  is not in force: others of its priority leave it no room\n")
			continue
		}
		for _, d := range policy.Directions {
			if o.Isolates[d] {
				fmt.Fprintf(&b, "  isolates %s: what no NetworkPolicy allows is refused\n", d)
			}
			for i := range o.Rules {
				if r := &o.Rules[i]; r.Direction == d {
					fmt.Fprintf(&b, "  %s\n", c.rule(o, r))
				}
			}
		}
	}
	return b.String()
}

// crowdedOut says that a policy is not in force, since others have taken all the room of its priority.
func (c *Cluster) crowdedOut(o *policy.Policy) bool {
	return slices.ContainsFunc(c.problems, func(p objects.Problem) bool {
		return about(p, o) && p.Reason == policies.PriorityFull.Name
	})
}

func priority(o *policy.Policy) string {
	if o.Kind == policy.ClusterNetworkPolicy || o.Kind == policy.AdminNetworkPolicy {
		return fmt.Sprintf(", priority %d", o.Priority)
	}
	return ""
}

// pick is a selection, and the pods in it.
func (c *Cluster) pick(s policy.Selection) string {
	pods := c.selected(s)
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.key()
	}
	if len(names) == 0 {
		names = []string{"none here"}
	}
	return "[" + s.String() + "]: " + listing(names)
}

func (c *Cluster) rule(o *policy.Policy, r *policy.Rule) string {
	text := fmt.Sprintf("%s %s", r.Field(), r.Action)
	if r.Name != "" {
		text += fmt.Sprintf(" (%q)", r.Name)
	}
	if r.Nothing() {
		return text + " nothing"
	}
	what := "everything"
	if !r.AnyPort {
		var ports []string
		for _, p := range r.Ports {
			ports = append(ports, c.portText(o, r, p))
		}
		what = strings.Join(ports, ", ")
	}
	side := " from "
	if r.Direction == policy.Egress {
		side = " to "
	}
	if r.Anyone {
		return text + " " + what + side + "anyone"
	}
	var peers []string
	for _, p := range r.Peers {
		peers = append(peers, c.peerText(p))
	}
	return text + " " + what + side + strings.Join(peers, " or ")
}

func (c *Cluster) peerText(p policy.Peer) string {
	switch {
	case p.Pods != nil:
		return c.pick(*p.Pods)
	case p.Nodes != nil && *p.Nodes == "":
		return "all nodes"
	case p.Nodes != nil:
		return "nodes " + string(*p.Nodes)
	case p.Domain != "":
		return p.Domain
	}
	var blocks []string
	for _, b := range p.Blocks {
		blocks = append(blocks, b.String())
	}
	return listing(blocks)
}

// portText is a port; of a named one, whether anybody has it.
func (c *Cluster) portText(o *policy.Policy, r *policy.Rule, p policy.Port) string {
	protocol := string(p.Protocol)
	if protocol == "" {
		protocol = "any protocol"
	}
	switch {
	case p.Name != "" && !c.named(o, r, p):
		return fmt.Sprintf("%q/%s (which no pod here has)", p.Name, protocol)
	case p.Name != "":
		return fmt.Sprintf("%q/%s", p.Name, protocol)
	case p.First == 0:
		return "all of " + protocol
	case p.First == p.Last:
		return fmt.Sprintf("%d/%s", p.First, protocol)
	}
	return fmt.Sprintf("%d-%d/%s", p.First, p.Last, protocol)
}

// named says whether a pod that a rule is about has a port of a name and protocol.
func (c *Cluster) named(o *policy.Policy, r *policy.Rule, port policy.Port) bool {
	for _, p := range c.pods {
		about := c.selects(o.Subject, p)
		if r.Direction == policy.Egress {
			about = r.Anyone
			for _, peer := range r.Peers {
				about = about || peer.Blocks != nil || peer.Pods != nil && c.selects(*peer.Pods, p)
			}
		}
		has := p.ports[port.Name]
		if about && (port.Protocol == "" && len(has) > 0 || slices.Contains(has, string(port.Protocol))) {
			return true
		}
	}
	return false
}
