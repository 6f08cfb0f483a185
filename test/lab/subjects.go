package lab

import (
	"net/netip"

	"github.com/weftnet/weft/test/lab/pki"
)

// Authorities, by the file names of their certificates. OVN's daemons look at no names but only at who has
// signed, so those of its servers and of its chassis are two.
const (
	clusterCA = "ca"
	centralCA = "ovn-central-ca"
	chassisCA = "ovn-chassis-ca"
	// southboundCAs are both: the Southbound has clients of either, and all may do there what a chassis may.
	southboundCAs = "ovn-southbound-cas"
)

// subjects are the holders of certificates, by authority and file name.
func (c Config) subjects() map[string]map[string]pki.Subject {
	chassis := map[string]pki.Subject{}
	for _, name := range c.Nodes() {
		chassis[chassisPair(name)] = pki.Subject{Name: name}
	}
	return map[string]map[string]pki.Subject{
		clusterCA: c.clusterSubjects(),
		centralCA: {centralPair: {Name: Central}, controllerPair: {Name: "weft-controller"}},
		chassisCA: chassis,
	}
}

// File names of OVN's certificates: that of its servers, that of the controller, and those by which the
// Southbound knows the nodes' ovn-controllers.
const (
	centralPair    = "ovn-central"
	controllerPair = "ovn-weft-controller"
)

func chassisPair(node string) string { return "ovn-chassis-" + node }

// clusterSubjects are those of Kubernetes and of the tunnel to Windows nodes.
func (c Config) clusterSubjects() map[string]pki.Subject {
	api := pki.Subject{
		Name: "kube-apiserver",
		DNSNames: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
			"localhost", Central},
		Addresses: append(c.addrs(management, centralNumber), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")),
	}
	for _, a := range c.pick(apiServiceV4, apiServiceV6) {
		api.Addresses = append(api.Addresses, netip.MustParseAddr(a))
	}
	subjects := map[string]pki.Subject{
		"apiserver":               api,
		"apiserver-kubelet":       {Name: "apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"front-proxy":             {Name: "front-proxy-client"},
		"admin":                   {Name: "admin", Groups: []string{"system:masters"}},
		"kube-controller-manager": {Name: "system:kube-controller-manager"},
		"kube-scheduler":          {Name: "system:kube-scheduler"},
		"weft-controller":         {Name: "weft:controller"},
		observeUser:               {Name: "weft:observe"},
		tunnelPair(Central):       {Name: Central, DNSNames: []string{observerName, observeServer}},
	}
	for i, name := range c.Nodes() {
		subjects[name] = pki.Subject{Name: "system:node:" + name, Groups: []string{"system:nodes"}, DNSNames: []string{name},
			Addresses: c.nodeAddrs(c.nodeNumber(i))}
	}
	for _, h := range c.hosts() {
		if h.isNode() {
			subjects[h.name] = pki.Subject{Name: "system:node:" + h.name, Groups: []string{"system:nodes"},
				DNSNames:  []string{h.name},
				Addresses: c.addrs(external, h.number)}
		}
	}
	if c.Windows > 0 {
		subjects[chassisUser] = pki.Subject{Name: "weft:chassis"}
	}
	for _, name := range c.chassisHosts() {
		subjects[tunnelPair(name)] = pki.Subject{Name: name, DNSNames: []string{chassisName}}
	}
	for _, name := range c.Nodes() {
		subjects[agentPair(name)] = pki.Subject{Name: name, DNSNames: []string{agentName(name)}}
	}
	return subjects
}

// Names in the certificates of the tunnel; package tunnel has the same.
const (
	chassisName  = "chassis.weft.net"
	observerName = "observe.weft.net"
	// observeServer is the observer's name to the API server; package observe has the same.
	observeServer = "weft-observe.weft-observe.svc"
)

func agentName(node string) string { return node + ".node.weft.net" }

// tunnelPair is the file name of the certificate by which a chassis host or the observer is known to nodes' agents, and
// agentPair that by which the agent is known to them.
func tunnelPair(machine string) string { return "tunnel-" + machine }
func agentPair(node string) string     { return "agent-" + node }
