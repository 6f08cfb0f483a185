package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// branch is a line of a tree, and what hangs on it.
type branch struct {
	text  string
	below []branch
}

// write draws what hangs on a branch. indent is what stands in front of each line.
func (b branch) write(w io.Writer, indent string) {
	for i, child := range b.below {
		mark, further := "├── ", "│   "
		if i == len(b.below)-1 {
			mark, further = "└── ", "    "
		}
		fmt.Fprintf(w, "%s%s%s\n", indent, mark, child.text)
		child.write(w, indent+further)
	}
}

// topologyText turns a topology into a tree.
type topologyText struct {
	*api.NetworkTopology
	wide bool
}

// writeTopology writes a tree for the routers that nodes share, and one for each node.
func writeTopology(out screen, topology *api.NetworkTopology, wide bool) error {
	t := topologyText{topology, wide}
	var text strings.Builder
	pods, down := 0, 0
	for _, n := range t.Nodes {
		pods += len(n.Pods)
		for _, p := range n.Pods {
			down += one(!p.Up)
		}
	}
	fmt.Fprintf(&text, "%d nodes, %d pods, %d of them not up", len(t.Nodes), pods, down)
	if t.LoadBalancers > 0 {
		fmt.Fprintf(&text, "; %d load balancers", t.LoadBalancers)
	}
	fmt.Fprintln(&text)
	for _, r := range t.Routers {
		t.tree(&text, t.router("router", r))
	}
	for _, n := range t.Nodes {
		t.tree(&text, t.node(n))
	}
	for _, u := range t.Unread {
		fmt.Fprintf(&text, "\nnot read: %s: %s\n", shown(u.Source), shown(u.Reason))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (t topologyText) tree(w io.Writer, root branch) {
	fmt.Fprintf(w, "\n%s\n", root.text)
	root.write(w, "")
}

func (t topologyText) node(n api.NodeTopology) branch {
	root := branch{text: "node " + shown(n.Name)}
	if n.System != "" {
		root.text += " (" + shown(n.System) + ")"
	}
	if n.Switch != "" {
		text := "switch " + shown(n.Switch)
		if n.Router != nil {
			text += ", the router's " + addresses(n.Router.Networks)
			if t.wide {
				text += fmt.Sprintf(" at %s, MAC %s", shown(n.Router.Name), shown(n.Router.MAC))
			}
		}
		root.below = append(root.below, branch{text: text + t.balancers(n.LoadBalancers)})
	}
	if n.Host != nil {
		root.below = append(root.below, branch{text: "host " + t.port(*n.Host)})
	}
	if n.Gateway != nil {
		root.below = append(root.below, t.router("gateway", *n.Gateway))
	}
	if t.wide && n.Switch != "" {
		root.below = append(root.below, branch{text: "chassis " + shown(cmp.Or(n.Chassis, "is not in the Southbound"))})
	}
	pods := branch{text: fmt.Sprintf("pods: %d", len(n.Pods))}
	for _, p := range n.Pods {
		pods.below = append(pods.below, branch{text: t.port(p)})
	}
	root.below = append(root.below, pods)
	return root
}

func (t topologyText) port(p api.PortTopology) string {
	name := strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
	text := shown(name) + "  " + addresses(p.Addresses)
	if !p.Up {
		text += "  not up"
	}
	if t.wide {
		text += fmt.Sprintf("  MAC %s, chassis %s", told(p.MAC), told(p.Chassis))
	}
	return text
}

func (t topologyText) router(kind string, r api.RouterTopology) branch {
	root := branch{text: kind + " " + shown(r.Name)}
	if r.Chassis != "" {
		root.text += " on chassis " + shown(r.Chassis)
	}
	root.text += t.balancers(r.LoadBalancers)
	for _, p := range r.Ports {
		text := fmt.Sprintf("to switch %s: %s", told(p.Switch), addresses(p.Networks))
		if p.Network != "" {
			text += ", network " + shown(p.Network)
		}
		if t.wide {
			text += fmt.Sprintf(" at %s, MAC %s", shown(p.Name), told(p.MAC))
		}
		root.below = append(root.below, branch{text: text})
	}
	return root
}

func (t topologyText) balancers(count int) string {
	if !t.wide || count == 0 {
		return ""
	}
	return fmt.Sprintf("; %d load balancers", count)
}

func addresses(list []string) string { return shown(dash(list)) }
