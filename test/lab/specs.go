package lab

import "github.com/weftnet/weft/test/lab/machine"

// specs of all machines of a lab.
func specs(c Config, f files) []*machine.Spec {
	l := newLayout(c, f)
	specs := []*machine.Spec{central{l, c.Controllers}.spec()}
	specs = append(append(specs, nodeSpecs(c, f)...), outside{l}.spec())
	for _, h := range l.hosts {
		specs = append(specs, hostMachine{l, h}.spec())
	}
	if l.hasHosts() {
		specs = append(specs, control{l}.spec())
	}
	return specs
}

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
