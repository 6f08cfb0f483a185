package lab

import (
	"errors"
	"net/netip"
	"os"

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

// certificates of a lab, with their keys.
type certificates struct{ layout }

// subjects are the holders of certificates, by authority and file name.
func (c certificates) subjects() map[string]map[string]pki.Subject {
	chassis := map[string]pki.Subject{}
	for _, n := range c.nodes() {
		chassis[chassisPair(n.name)] = pki.Subject{Name: n.name}
	}
	central := map[string]pki.Subject{controllerPair: {Name: "weft-controller"}}
	for _, z := range c.zones {
		central[z.certificatePair()] = pki.Subject{Name: z.host}
	}
	return map[string]map[string]pki.Subject{
		clusterCA: c.clusterSubjects(),
		centralCA: central,
		chassisCA: chassis,
	}
}

// controllerPair is the file name of the controllers' certificate for the Northbound.
const controllerPair = "ovn-weft-controller"

// chassisPair is the file name of the certificate by which the Southbound knows a node's ovn-controller.
func chassisPair(node string) string { return "ovn-chassis-" + node }

// clusterSubjects are those of Kubernetes and of the tunnel to Windows nodes.
func (c certificates) clusterSubjects() map[string]pki.Subject {
	api := pki.Subject{
		Name: "kube-apiserver",
		DNSNames: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
			"localhost", Central},
		Addresses: append(c.addresses.of(management, centralNumber), netip.MustParseAddr("127.0.0.1"),
			netip.MustParseAddr("::1")),
	}
	for _, a := range c.addresses.pick(apiServiceV4, apiServiceV6) {
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
	for _, n := range c.nodes() {
		subjects[n.name] = kubeletSubject(n.name, c.addresses.ofNode(n))
		subjects[agentPair(n.name)] = pki.Subject{Name: n.name, DNSNames: []string{agentName(n.name)}}
	}
	for _, h := range c.hosts {
		if h.isNode() {
			subjects[h.name] = kubeletSubject(h.name, c.addresses.of(external, h.number))
		}
	}
	if len(c.windowsNodes) > 0 {
		subjects[chassisUser] = pki.Subject{Name: "weft:chassis"}
	}
	for _, h := range c.chassisHosts() {
		subjects[h.pair] = pki.Subject{Name: h.machine, DNSNames: []string{chassisName}}
	}
	return subjects
}

func kubeletSubject(node string, addresses []netip.Addr) pki.Subject {
	return pki.Subject{Name: "system:node:" + node, Groups: []string{"system:nodes"}, DNSNames: []string{node},
		Addresses: addresses}
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

// write makes new authorities, all that they issue, and the key that signs the tokens of service accounts.
func (c certificates) write() error {
	if err := os.MkdirAll(c.files.pki(""), 0o700); err != nil {
		return err
	}
	for authority, subjects := range c.subjects() {
		if err := c.issue(authority, subjects); err != nil {
			return err
		}
	}
	if err := c.joinSouthboundCAs(); err != nil {
		return err
	}
	private, public, err := pki.SigningKey()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(c.files.pki("sa.key"), private, 0o600),
		os.WriteFile(c.files.pki("sa.pub"), public, 0o644))
}

// issue makes an authority and its subjects' certificates, and kubeconfigs if Kubernetes trusts it.
func (c certificates) issue(authority string, subjects map[string]pki.Subject) error {
	f := c.files
	ca, err := pki.NewAuthority("weftlab-" + c.lab + "-" + authority)
	if err != nil {
		return err
	}
	if err := ca.Write(f.pki(""), authority); err != nil {
		return err
	}
	for name, subject := range subjects {
		pair, err := ca.Issue(subject)
		if err != nil {
			return err
		}
		if err := pair.Write(f.pki(""), name); err != nil {
			return err
		}
		if authority != clusterCA {
			continue
		}
		kubeconfig, err := ca.Kubeconfig(c.lab, c.addresses.apiServer(), pair)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.kubeconfig(name), kubeconfig, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// reissue puts another certificate of the cluster's authority in the place of the one with that file name.
func (c certificates) reissue(name string, subject pki.Subject) error {
	ca, err := pki.ReadAuthority(c.files.pki(""), clusterCA)
	if err != nil {
		return err
	}
	pair, err := ca.Issue(subject)
	if err != nil {
		return err
	}
	return pair.Write(c.files.pki(""), name)
}

// joinSouthboundCAs makes the one file with both authorities.
func (c certificates) joinSouthboundCAs() error {
	var trusted []byte
	for _, authority := range []string{centralCA, chassisCA} {
		cert, err := os.ReadFile(c.files.pki(authority + ".crt"))
		if err != nil {
			return err
		}
		trusted = append(trusted, cert...)
	}
	return os.WriteFile(c.files.pki(southboundCAs+".crt"), trusted, 0o644)
}
