package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/ovn/acl"
)

// Reach is who may open connections to whom, app by app, by what the policies ask for.
type Reach struct {
	// Apps is the apps, by namespace and name.
	Apps []App `json:"apps"`
	// Ways has for each app as a source, and for each as a destination, what becomes of connections. It is empty where
	// nothing was asked: within an app of one pod, and outside of the namespace that was asked for.
	Ways [][][]PortReach `json:"ways"`
}

// App is the pods of a namespace that have the same app label, or else one pod.
type App struct {
	Namespace string `json:"namespace"`
	// Name is the value of the first of [appLabels] that the pods have, or the pod's name.
	Name string `json:"name"`
	// Pods is the number of its pods.
	Pods int `json:"pods"`
	// Sample is the name of one of them.
	Sample string `json:"sample"`
}

// ContainerPort is a port that a container declares, or icmp without a number.
type ContainerPort struct {
	// Protocol is tcp, udp, sctp or icmp.
	Protocol string `json:"protocol"`
	// Port is the number of the port; 0 of icmp.
	Port uint16 `json:"port"`
}

// PortReach is what becomes of connections to a port.
type PortReach struct {
	ContainerPort
	// Allowed is how many of the connections that were asked for are allowed.
	Allowed int `json:"allowed"`
	// Asked is how many were asked for.
	Asked int `json:"asked"`
}

// appLabels name apps, the first that a pod has.
var appLabels = []string{"app.kubernetes.io/name", "app", "k8s-app"}

// maxWays bounds the pairs of apps that are asked about.
const maxWays = 40_000

// app is an app and those of its pods that stand for all: two of each kind that policies tell apart.
type app struct {
	App
	kinds map[string][]*pod
}

// Reach asks for connections between all apps, or those from and to a namespace if it is not "". Each is asked for at
// the ports that the destination's containers declare, or by an echo if they declare none, over the first address
// family that both ends have. Pods that are in the same port groups and address sets have the same answers, so two of
// them stand for all. A rule that names ranges of addresses may tell them apart all the same.
func (c *Cluster) Reach(namespace string) (*Reach, error) {
	apps := c.apps()
	asked := func(from, to *app) bool {
		return namespace == "" || from.Namespace == namespace || to.Namespace == namespace
	}
	ways := 0
	for _, from := range apps {
		for _, to := range apps {
			if asked(from, to) {
				ways++
			}
		}
	}
	switch {
	case ways <= maxWays:
	case namespace == "":
		return nil, fmt.Errorf("%d apps have %d ways between them, more than %d: ask for one namespace", len(apps), ways,
			maxWays)
	default:
		return nil, fmt.Errorf("the apps of namespace %q have %d ways from and to the cluster's %d apps, more than %d: ask "+
			"`weft policy explain` about single pods", namespace, ways, len(apps), maxWays)
	}
	reach := &Reach{Apps: make([]App, len(apps)), Ways: make([][][]PortReach, len(apps))}
	for i, from := range apps {
		reach.Apps[i] = from.App
		reach.Ways[i] = make([][]PortReach, len(apps))
		for j, to := range apps {
			if asked(from, to) {
				reach.Ways[i][j] = c.way(from, to)
			}
		}
	}
	return reach, nil
}

// apps are those of all pods that have addresses of their own.
func (c *Cluster) apps() []*app {
	kinds := c.memberships()
	type name struct {
		namespace, name string
		labelled        bool // else it is a pod's own
	}
	byName := map[name]*app{}
	for _, key := range c.names {
		p := c.pods[key]
		if p.why != "" || len(p.addresses) == 0 {
			continue
		}
		n := name{namespace: p.namespace}
		n.name, n.labelled = appName(p)
		a := byName[n]
		if a == nil {
			a = &app{App: App{Namespace: p.namespace, Name: n.name, Sample: p.name}, kinds: map[string][]*pod{}}
			byName[n] = a
		}
		a.Pods++
		if kind := kinds(p); len(a.kinds[kind]) < 2 {
			a.kinds[kind] = append(a.kinds[kind], p)
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *app) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Sample, b.Sample))
	})
}

// appName is what a label of a pod says, or else the pod's own name.
func appName(p *pod) (name string, labelled bool) {
	for _, label := range appLabels {
		if value := p.labels[label]; value != "" {
			return value, true
		}
	}
	return p.name, false
}

// memberships gives the port groups and address sets that a pod is in, and the ports that it declares, as one text.
func (c *Cluster) memberships() func(*pod) string {
	of := map[string][]string{} // by the name of a port, or an address
	ports := map[string]string{}
	for _, port := range c.rows.Ports {
		ports[port.UUID] = port.Name
	}
	for _, group := range c.rows.PortGroups {
		for _, uuid := range group.Ports {
			of[ports[uuid]] = append(of[ports[uuid]], group.Name)
		}
	}
	for _, set := range c.rows.AddressSets {
		for _, address := range set.Addresses {
			of[address] = append(of[address], set.Name)
		}
	}
	return func(p *pod) string {
		names := slices.Clone(of[p.port])
		for _, address := range p.addresses {
			names = append(names, of[address.String()]...)
		}
		slices.Sort(names)
		return strings.Join(names, " ") + fmt.Sprint(p.listens)
	}
}

// way asks for connections from each kind of one app's pods to each of another's.
func (c *Cluster) way(from, to *app) []PortReach {
	found := map[ContainerPort]*PortReach{}
	for _, sources := range from.kinds {
		for _, targets := range to.kinds {
			src, dst := sources[0], targets[0]
			if src == dst {
				dst = targets[len(targets)-1]
			}
			if src != dst { // no policy is asked about a pod and itself
				c.connect(src, dst, found)
			}
		}
	}
	list := make([]PortReach, 0, len(found))
	for _, port := range slices.SortedFunc(maps.Keys(found), ContainerPort.compare) {
		list = append(list, *found[port])
	}
	return list
}

func (p ContainerPort) compare(other ContainerPort) int {
	return cmp.Or(cmp.Compare(p.Port, other.Port), cmp.Compare(p.Protocol, other.Protocol))
}

// connect adds what becomes of connections from a pod to the ports of another.
func (c *Cluster) connect(from, to *pod, found map[ContainerPort]*PortReach) {
	src, dst, ok := firstFamily(from, to)
	if !ok {
		return
	}
	ports := slices.Compact(slices.SortedFunc(slices.Values(to.listens), ContainerPort.compare))
	if len(ports) == 0 {
		ports = []ContainerPort{{Protocol: icmp}}
	}
	for _, port := range ports {
		if found[port] == nil {
			found[port] = &PortReach{ContainerPort: port}
		}
		found[port].Asked++
		packet := firstPacket(port.Protocol, port.Port, from, to, src, dst)
		if c.desired.Judge(acl.Connection{Packet: packet}).Allowed {
			found[port].Allowed++
		}
	}
}

// firstFamily are the addresses by which two pods reach each other; ok is false if they have no family in common.
func firstFamily(from, to *pod) (src, dst netip.Addr, ok bool) {
	for _, src := range from.addresses {
		for _, dst := range to.addresses {
			if src.Is4() == dst.Is4() {
				return src, dst, true
			}
		}
	}
	return src, dst, false
}
