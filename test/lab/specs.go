package lab

import "github.com/weftnet/weft/test/lab/machine"

// specs of all machines of a lab.
func specs(c Config, f files) []*machine.Spec {
	l := newLayout(c, f)
	first := zoneCentral{l, l.zones[0], c.PodNetworks}
	all := []*machine.Spec{central{first, c.Controllers}.spec()}
	for _, z := range l.zones[1:] {
		all = append(all, zoneCentral{l, z, c.PodNetworks}.spec())
	}
	all = append(append(all, nodeSpecs(c, f)...), outside{l}.spec())
	for _, h := range l.hosts {
		all = append(all, hostMachine{l, h}.spec())
	}
	if l.hasHosts() {
		all = append(all, control{l}.spec())
	}
	return all
}

// nodeSpecs are those of the Linux and Windows nodes, in the order of [Config.Nodes].
func nodeSpecs(c Config, f files) []*machine.Spec {
	l := newLayout(c, f)
	var specs []*machine.Spec
	for _, n := range l.linuxNodes {
		specs = append(specs, linuxNode{nodeMachine{l, n}}.spec())
	}
	for _, n := range l.windowsNodes {
		specs = append(specs, windowsNode{nodeMachine{l, n}, c.emulated(), c.WindowsFaults}.spec())
	}
	return specs
}
