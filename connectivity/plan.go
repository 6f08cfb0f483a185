package connectivity

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// LeftOut is a way that is not tested, or not of all nodes.
type LeftOut struct {
	Way    Way    `json:"way"`
	Reason string `json:"reason"`
}

// pair is a client on a node, and what it asks on the same node or another one.
type pair struct {
	from, to int // the nodes' numbers
	family   corev1.IPFamily
}

func (s *scene) pairs() (list []pair) {
	for _, family := range s.families() {
		for from := range s.nodes {
			for to := range s.nodes {
				list = append(list, pair{from, to, family})
			}
		}
	}
	return list
}

// plan are the questions to ask, way by way, and the ways that are left out.
func (s *scene) plan() (questions []question, left []LeftOut) {
	for _, ask := range []func(pair) []question{s.podToPod, s.largePackets, s.podToService, s.podToNodePort, s.podToHost,
		s.hostToPod, s.policies} {
		for _, p := range s.pairs() {
			questions = append(questions, ask(p)...)
		}
	}
	questions = append(append(questions, s.names()...), s.outside()...)
	return questions, s.leftOut(questions)
}

// question is one of a node's pod of a role, to which anybody may answer.
func (s *scene) question(way Way, r role, p pair, to End, dial Dial) question {
	return question{way: way, from: s.end(r, p.from), to: to, family: p.family, port: s.port(r), dial: dial}
}

// dialHost asks an address of a family for its host name. The host is empty if there is none.
func dialHost(addrs []netip.Addr, family corev1.IPFamily, port int, protocol corev1.Protocol) Dial {
	return Dial{Host: ofFamily(addrs, family), Port: port, Protocol: protocol, Request: "hostname"}
}

// toItself asks a pod for its own host name, so that no network but the API server's way to it counts.
func (s *scene) toItself(p pod) question {
	q := question{from: p.End, port: s.port(p.role),
		dial: Dial{Host: "127.0.0.1", Port: s.port(p.role), Protocol: corev1.ProtocolTCP, Request: "hostname"}}
	if p.role != hostRole { // whose host name is the node's
		q.want.hosts = []string{p.Pod}
	}
	return q
}

// podToPod asks a server by its own address.
func (s *scene) podToPod(p pair) (list []question) {
	way := PodToOtherNode
	switch {
	case p.from == p.to:
		way = PodToSameNode
	case s.nodes[p.from].System != s.nodes[p.to].System:
		way = PodToOtherSystem
	}
	server := s.end(serverRole, p.to)
	addrs := s.pods[server.Pod].addresses
	for _, dial := range []Dial{dialHost(addrs, p.family, httpPort, corev1.ProtocolTCP),
		dialHost(addrs, p.family, udpPort, corev1.ProtocolUDP)} {
		q := s.question(way, clientRole, p, server, dial)
		q.want.hosts = []string{server.Pod}
		list = append(list, q)
	}
	return list
}

const (
	// answerBytes is a size that takes many full segments.
	answerBytes = 64 << 10
	// pieceBytes is what a server asks itself for, to make a large answer of many. No URL on the way becomes long by it.
	pieceBytes = 1 << 10
	// datagramBytes is more than Ethernet's MTU, and less than the 2,048 bytes that netexec reads.
	datagramBytes = 1900
)

// largePackets ask a server for what one packet does not hold.
func (s *scene) largePackets(p pair) []question {
	server := s.end(serverRole, p.to)
	addrs := s.pods[server.Pod].addresses
	piece := url.Values{"host": {"127.0.0.1"}, "port": {strconv.Itoa(httpPort)},
		"request": {"echo?msg=" + strings.Repeat("x", pieceBytes)}, "tries": {strconv.Itoa(answerBytes / pieceBytes)}}
	answer := s.question(LargeTCP, clientRole, p, server, dialHost(addrs, p.family, httpPort, corev1.ProtocolTCP))
	answer.dial.Request = "dial?" + piece.Encode()
	answer.want.bytes = answerBytes
	datagram := s.question(LargeUDP, clientRole, p, server, dialHost(addrs, p.family, udpPort, corev1.ProtocolUDP))
	datagram.dial.Request = "echo " + strings.Repeat("x", datagramBytes)
	datagram.want.bytes = datagramBytes
	return []question{answer, datagram}
}

// toService asks the Service in front of a node's server by its ClusterIP.
func (s *scene) toService(way Way, r role, p pair) (list []question) {
	server := s.end(serverRole, p.to)
	to := End{Service: server.Pod, Node: server.Node, System: server.System}
	addrs := s.services[to.Service].addresses
	for _, dial := range []Dial{dialHost(addrs, p.family, serviceHTTPPort, corev1.ProtocolTCP),
		dialHost(addrs, p.family, serviceUDPPort, corev1.ProtocolUDP)} {
		q := s.question(way, r, p, to, dial)
		q.want.hosts = []string{server.Pod}
		list = append(list, q)
	}
	return list
}

func (s *scene) podToService(p pair) []question { return s.toService(PodToService, clientRole, p) }

// podToNodePort asks a node's own address. Each node has a server, so it answers with the externalTrafficPolicy Local,
// too. Which of them answers is not said: of a client in the cluster Kubernetes does not ask that it is the node's own.
func (s *scene) podToNodePort(p pair) (list []question) {
	node := s.nodes[p.to]
	if ofFamily(node.addresses, p.family) == "" {
		return nil
	}
	for _, of := range []struct {
		way     Way
		service string
	}{{PodToNodePort, allServers}, {PodToLocalNodePort, localServers}} {
		q := s.question(of.way, clientRole, p, End{Service: of.service, Node: node.Name, System: node.System},
			dialHost(node.addresses, p.family, s.services[of.service].nodePort, corev1.ProtocolTCP))
		for number := range s.nodes {
			q.want.hosts = append(q.want.hosts, numbered(serverRole, number))
		}
		list = append(list, q)
	}
	return list
}

// podToHost asks a node's kubelet, which every node has. It answers that it wants TLS.
func (s *scene) podToHost(p pair) []question {
	node := s.nodes[p.to]
	if ofFamily(node.addresses, p.family) == "" || node.kubeletPort == 0 {
		return nil
	}
	return []question{s.question(PodToHost, clientRole, p, s.host(p.to),
		dialHost(node.addresses, p.family, node.kubeletPort, corev1.ProtocolTCP))}
}

// hostToPod asks from a pod that has its host's network, if the node has one.
func (s *scene) hostToPod(p pair) []question {
	if !slices.Contains(rolesOf(s.nodes[p.from], s.options.HostNetwork), hostRole) {
		return nil
	}
	server := s.end(serverRole, p.to)
	q := s.question(HostToPod, hostRole, p, server, dialHost(s.pods[server.Pod].addresses, p.family, httpPort,
		corev1.ProtocolTCP))
	q.want.hosts = []string{server.Pod}
	return append([]question{q}, s.toService(HostToService, hostRole, p)...)
}

// policies ask a guarded pod, as a client that a NetworkPolicy lets pass, and as another pod, whom it does not.
func (s *scene) policies(p pair) []question {
	guarded := s.end(guardedRole, p.to)
	dial := dialHost(s.pods[guarded.Pod].addresses, p.family, httpPort, corev1.ProtocolTCP)
	allowed := s.question(PolicyAllows, clientRole, p, guarded, dial)
	allowed.want.hosts = []string{guarded.Pod}
	refused := s.question(PolicyRefuses, serverRole, p, guarded, dial)
	refused.want.refused = true
	return []question{allowed, refused}
}

// names ask the cluster's DNS. They are Services' names in the pods' own namespace: those alone are known to Windows,
// which has one suffix, as well as to Linux.
func (s *scene) names() (list []question) {
	for number := range s.nodes {
		server := s.end(serverRole, number)
		q := s.question(PodToName, clientRole, pair{from: number},
			End{Service: server.Pod, Node: server.Node, System: server.System},
			Dial{Host: server.Pod, Port: serviceHTTPPort, Protocol: corev1.ProtocolTCP, Request: "hostname"})
		q.want.hosts = []string{server.Pod}
		list = append(list, q)
	}
	return list
}

// outside asks a server that is no part of the cluster.
func (s *scene) outside() (list []question) {
	host, port, err := splitOutside(s.options.Outside)
	if err != nil {
		return nil
	}
	for number := range s.nodes {
		p := pair{from: number}
		if addr, err := netip.ParseAddr(host); err == nil {
			p.family = familyOf(addr)
		}
		list = append(list, s.question(PodToOutside, clientRole, p, End{}, Dial{Host: host, Port: port,
			Protocol: corev1.ProtocolTCP, Request: "/"})) // netexec refuses an empty request
	}
	return list
}

// splitOutside reads HOST:PORT.
func splitOutside(text string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("%q is no HOST:PORT", text)
	}
	return host, int(n), nil
}

// leftOut are the ways that no question goes, and nodes that others leave out.
func (s *scene) leftOut(questions []question) (list []LeftOut) {
	reasons := map[Way]string{
		PodToOtherNode:   "no two of the nodes are of one system; name more by the key nodes",
		PodToOtherSystem: "all nodes are of one system; name nodes of the other by the key nodes",
		PodToNodePort:    "no node has an internal address of the cluster's families",
		PodToHost:        "no node has an internal address of the cluster's families, and a kubelet's port",
		HostToPod:        "no pod has its host's network: no node is a Linux one, or the key host-network is false",
		PodToOutside:     "no server outside is named; the key outside does it",
	}
	reasons[PodToLocalNodePort], reasons[HostToService] = reasons[PodToNodePort], reasons[HostToPod]
	for _, way := range Ways {
		asked := slices.ContainsFunc(questions, func(q question) bool { return q.way == way })
		if reason, may := reasons[way]; may && !asked {
			list = append(list, LeftOut{way, reason})
		}
	}
	if hosts := s.windowsHosts(); len(hosts) > 0 && s.options.HostNetwork {
		list = append(list, LeftOut{HostToPod, "from " + strings.Join(hosts, ", ") + ": on Windows only HostProcess " +
			"containers have the host's network, and the test runs none. What kubelets there ask is the way \"" +
			string(HostToOwnPod) + "\""})
	}
	return list
}

func (s *scene) windowsHosts() (list []string) {
	for _, n := range s.nodes {
		if n.System == windows {
			list = append(list, n.Name)
		}
	}
	return list
}
