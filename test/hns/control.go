package hns

import (
	"fmt"
	"slices"
	"strings"
)

// console is what container runtimes do to HNS, and a boot. Its injector makes faults.
type console struct {
	injector
	ipHelper *ipHelper
}

// A verb of [Service.Control].
type verb struct {
	words  []string // what it is called
	args   string   // what it takes, for people
	least  int
	most   int
	action func(c *console, args []string) (string, error)
}

var verbs = []verb{
	{[]string{"namespace", "add"}, "GUID NETNS", 2, 2, (*console).addNamespace},
	{[]string{"namespace", "del"}, "GUID", 1, 1, (*console).removeNamespace},
	{[]string{"network", "add"}, "NAME TYPE", 2, 2, (*console).addNetwork},
	{[]string{"start"}, "GUID", 1, 1, (*console).start},
	{[]string{"stop"}, "GUID", 1, 1, (*console).stop},
	{[]string{"state"}, "", 0, 0, (*console).state},
	{[]string{"fault", "hang"}, "CALL SECONDS [COUNT]", 2, 3, (*console).hang},
	{[]string{"fault", "fail"}, "CALL HRESULT [COUNT]", 2, 3, (*console).fail},
	{[]string{"fault", "lose-network"}, "[NAME]", 0, 1, (*console).loseNetwork},
	{[]string{"fault", "lose-endpoints"}, "", 0, 0, (*console).loseEndpoints},
	{[]string{"fault", "disable-extension"}, "", 0, 0, (*console).disableExtension},
	{[]string{"fault", "no-driver"}, "", 0, 0, (*console).noDriver},
	{[]string{"fault", "no-vmms"}, "", 0, 0, (*console).noVMMS},
	{[]string{"fault", "delay-vnic"}, "SECONDS", 1, 1, (*console).delayVNIC},
	{[]string{"fault", "restart"}, "[SECONDS]", 0, 1, (*console).restart},
	{[]string{"fault", "dhcp-fail"}, "", 0, 0, (*console).dhcpFail},
	{[]string{"fault", "clear"}, "", 0, 0, (*console).clear},
	{[]string{"reboot"}, "", 0, 0, (*console).reboot},
}

// Usage lists the verbs, a line each.
func Usage() string {
	var text strings.Builder
	for _, v := range verbs {
		fmt.Fprintf(&text, "  %s %s\n", strings.Join(v.words, " "), v.args)
	}
	return text.String()
}

// do does what a verb says and returns what it prints.
func (c *console) do(words []string) (string, error) {
	for _, v := range verbs {
		n := len(v.words)
		if len(words) < n || !slices.Equal(words[:n], v.words) {
			continue
		}
		args := words[n:]
		if len(args) < v.least || len(args) > v.most {
			return "", fmt.Errorf("%s takes %s", strings.Join(v.words, " "), strings.TrimSpace(v.args+" (nothing else)"))
		}
		return v.action(c, args)
	}
	return "", fmt.Errorf("no verb %q; there are\n%s", strings.Join(words, " "), Usage())
}

func (c *console) addNamespace(args []string) (string, error) {
	c.system.mu.Lock()
	defer c.system.mu.Unlock()
	id := canonicalID(args[0])
	if n := c.system.objects.namespace(id); n != nil {
		if n.Netns != args[1] {
			return "", fmt.Errorf("namespace %s is that of %s", id, n.Netns)
		}
		return "", nil
	}
	if _, err := c.system.objects.addNamespace(id, "HostDefault", args[1]); err != 0 {
		return "", err
	}
	c.system.keep()
	return "", nil
}

func (c *console) removeNamespace(args []string) (string, error) {
	c.system.mu.Lock()
	defer c.system.mu.Unlock()
	// What is gone stays gone: a runtime repeats its clean-up.
	_ = c.system.objects.remove(kindNamespace, args[0])
	c.system.keep()
	return "", nil
}

// addNetwork makes a network that is none of the agent's, such as Docker's NAT.
func (c *console) addNetwork(args []string) (string, error) {
	c.system.mu.Lock()
	defer c.system.mu.Unlock()
	if _, err := c.system.addNetwork("", &Network{Name: args[0], Type: args[1]}); err != 0 {
		return "", fmt.Errorf("add network %s of type %s: %w", args[0], args[1], err)
	}
	c.system.keep()
	return "", nil
}

// start is what HCS does when a sandbox's first container starts: the vNICs come.
func (c *console) start(args []string) (string, error) {
	c.system.mu.Lock()
	defer c.system.mu.Unlock()
	n := c.system.objects.namespace(args[0])
	if n == nil {
		return "", fmt.Errorf("start the container of namespace %s: %w", args[0], ErrElementNotFound)
	}
	if !n.Started {
		n.Started = true
		n.Resources = append(n.Resources, Resource{Type: "Container", Data: ResourceData{strings.ToLower(n.ID)}})
		c.system.delay(c.system.objects.in(n)...)
	}
	c.system.keep()
	return "", nil
}

func (c *console) stop(args []string) (string, error) {
	c.system.mu.Lock()
	defer c.system.mu.Unlock()
	if n := c.system.objects.namespace(args[0]); n != nil {
		n.Started = false
		n.Resources = slices.DeleteFunc(n.Resources, func(r Resource) bool { return r.Type == "Container" })
		c.system.keep()
	}
	return "", nil
}

// reboot: the machine has booted anew.
func (c *console) reboot([]string) (string, error) {
	c.system.mu.Lock()
	defer c.system.mu.Unlock()
	c.system.objects.forgetPods()
	clear(c.hcn.handles)
	c.system.keep()
	return "", nil
}
