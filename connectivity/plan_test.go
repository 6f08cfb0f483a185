package connectivity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// newScene is that of nodes by the first letters of their names, l and w, whose pods all run. Node I has 192.0.2.I and
// 2001:db8::I, its pods 10.244.I.x and fd00:I::x, and Service I has 10.96.0.I and fd00:96::I.
func newScene(o Options, families int, nodes ...string) *scene {
	s := &scene{options: o, pods: map[string]pod{}, services: map[string]service{}}
	both := func(format4, format6 string, n ...any) []netip.Addr {
		return parseAddresses([]string{fmt.Sprintf(format4, n...), fmt.Sprintf(format6, n...)})[:families]
	}
	for i, name := range nodes {
		node := Node{Name: name, System: linux, kubeletPort: 10250, addresses: both("192.0.2.%d", "2001:db8::%d", i)}
		if name[0] == 'w' {
			node.System = windows
		}
		s.nodes = append(s.nodes, node)
		s.services[numbered(serverRole, i)] = service{addresses: both("10.96.0.%d", "fd00:96::%d", i)}
	}
	for i, node := range s.nodes {
		for j, r := range rolesOf(node, o.HostNetwork) {
			p := pod{End: s.end(r, i), role: r, started: true, ready: true,
				addresses: both("10.244.%d.%d", "fd00:%d::%d", i, j+3)}
			if r == hostRole {
				p.addresses = node.addresses
			}
			s.pods[p.Pod] = p
		}
	}
	s.services[allServers] = service{addresses: both("10.96.0.%d", "fd00:96::%d", 100), nodePort: 30100}
	s.services[localServers] = service{addresses: both("10.96.0.%d", "fd00:96::%d", 101), nodePort: 30101}
	return s
}

// TestPlan: the number of questions of each way follows from nodes, families and options.
func TestPlan(t *testing.T) {
	all := Options{HostNetwork: true, HostPort: 18080, Outside: "203.0.113.7:80"}
	for _, c := range []struct {
		name  string
		scene *scene
		want  map[Way]int
		left  []Way
	}{
		{"two of each system, dual stack", newScene(all, 2, "l1", "l2", "w1", "w2"), map[Way]int{
			PodToSameNode: 16, PodToOtherNode: 16, PodToOtherSystem: 32, LargeTCP: 32, LargeUDP: 32, PodToService: 64,
			PodToNodePort: 32, PodToLocalNodePort: 32, PodToHost: 32, HostToPod: 16, HostToService: 32, PolicyAllows: 32,
			PolicyRefuses: 32, PodToName: 4, PodToOutside: 4}, []Way{HostToPod}},
		{"one of each, IPv4", newScene(all, 1, "l1", "w1"), map[Way]int{
			PodToSameNode: 4, PodToOtherSystem: 4, LargeTCP: 4, LargeUDP: 4, PodToService: 8, PodToNodePort: 4,
			PodToLocalNodePort: 4, PodToHost: 4, HostToPod: 2, HostToService: 4, PolicyAllows: 4, PolicyRefuses: 4, PodToName: 2,
			PodToOutside: 2}, []Way{PodToOtherNode, HostToPod}},
		{"Linux alone, without pods on hosts' networks", newScene(Options{}, 1, "l1", "l2"), map[Way]int{
			PodToSameNode: 4, PodToOtherNode: 4, LargeTCP: 4, LargeUDP: 4, PodToService: 8, PodToNodePort: 4,
			PodToLocalNodePort: 4, PodToHost: 4, PolicyAllows: 4, PolicyRefuses: 4, PodToName: 2},
			[]Way{PodToOtherSystem, HostToPod, HostToService, PodToOutside}},
		{"one Windows node", newScene(all, 1, "w1"), map[Way]int{PodToSameNode: 2, LargeTCP: 1, LargeUDP: 1,
			PodToService: 2, PodToNodePort: 1, PodToLocalNodePort: 1, PodToHost: 1, PolicyAllows: 1, PolicyRefuses: 1,
			PodToName: 1, PodToOutside: 1},
			[]Way{PodToOtherNode, PodToOtherSystem, HostToPod, HostToService, HostToPod}},
	} {
		questions, left := c.scene.plan()
		got := map[Way]int{}
		for _, q := range questions {
			got[q.way]++
		}
		for _, way := range Ways {
			if got[way] != c.want[way] {
				t.Errorf("%s: %s has %d questions, want %d", c.name, way, got[way], c.want[way])
			}
		}
		var ways []Way
		for _, l := range left {
			ways = append(ways, l.Way)
		}
		if !slices.Equal(ways, c.left) {
			t.Errorf("%s: it leaves out %q, want %q", c.name, ways, c.left)
		}
	}
}

// TestQuestions: who asks whom, by which address, for what.
func TestQuestions(t *testing.T) {
	s := newScene(Options{HostNetwork: true, HostPort: 18080, Outside: "[2001:db8::7]:80"}, 2, "l1", "w1")
	questions, _ := s.plan()
	for _, want := range []string{
		"pod to pod, same node: client-1 on w1:8080 -> server-1 on w1, 10.244.1.3:8080/TCP, by [server-1]",
		"pod to pod, other system: client-0 on l1:8080 -> server-1 on w1, [fd00:1::3]:8081/UDP, by [server-1]",
		"pod to ClusterIP: client-1 on w1:8080 -> Service server-0 on l1, 10.96.0.0:80/TCP, by [server-0]",
		"pod to ClusterIP: client-1 on w1:8080 -> Service server-0 on l1, [fd00:96::]:81/UDP, by [server-0]",
		"pod to NodePort: client-0 on l1:8080 -> Service servers on w1, 192.0.2.1:30100/TCP, by [server-0 server-1]",
		"pod to NodePort, Local: client-0 on l1:8080 -> Service servers-local on w1, 192.0.2.1:30101/TCP, by " +
			"[server-0 server-1]",
		"pod to host: client-0 on l1:8080 -> host w1, [2001:db8::1]:10250/TCP, by []",
		"host to pod: host-0 on l1:18080 -> server-1 on w1, 10.244.1.3:8080/TCP, by [server-1]",
		"host to ClusterIP: host-0 on l1:18080 -> Service server-1 on w1, 10.96.0.1:81/UDP, by [server-1]",
		"policy, allowed: client-0 on l1:8080 -> guarded-1 on w1, 10.244.1.5:8080/TCP, by [guarded-1]",
		"policy, refused: server-0 on l1:8080 -> guarded-1 on w1, 10.244.1.5:8080/TCP, by nobody",
		"pod to name of a Service: client-1 on w1:8080 -> Service server-1 on w1, server-1:80/TCP, by [server-1]",
		"pod to outside: client-1 on w1:8080 -> outside, [2001:db8::7]:80/TCP, by []",
	} {
		if !slices.ContainsFunc(questions, func(q question) bool { return questionText(q) == want }) {
			t.Errorf("there is no question %s", want)
		}
	}
	for _, q := range questions {
		if (q.way == PodToName) != (q.family == "") {
			t.Errorf("%s is of family %q", questionText(q), q.family)
		}
	}
}

func questionText(q question) string {
	who := fmt.Sprint(q.want.hosts)
	if q.want.refused {
		who = "nobody"
	}
	return fmt.Sprintf("%s: %s:%d -> %s, %s, by %s", q.way, q.from, q.port, q.to, q.dial, who)
}

// TestLargePacketsAreLarge, and no URL is.
func TestLargePacketsAreLarge(t *testing.T) {
	for _, q := range newScene(Options{}, 1, "l1").largePackets(pair{family: corev1.IPv4Protocol}) {
		if q.want.bytes <= 1500 || len(q.dial.Request) > 2048 {
			t.Errorf("%s wants %d bytes by a request of %d", q.way, q.want.bytes, len(q.dial.Request))
		}
	}
}

// TestWhatIsNotAsked: a pod that has not started, one that cannot be asked, and an address that is not there are told.
func TestWhatIsNotAsked(t *testing.T) {
	s := newScene(Options{}, 2, "l1", "w1")
	server, client := s.pods["server-1"], s.pods["client-1"]
	server.addresses, client.started = server.addresses[:1], false
	s.pods["server-1"], s.pods["client-1"] = server, client
	questions, _ := s.plan()
	got := map[string]State{}
	for _, q := range questions {
		if r := s.before(q, map[string]bool{"client-0": true, "client-1": true}); r.State != "" {
			got[r.Error] = r.State
		}
	}
	for text, state := range map[string]State{"server-1 on w1 has no IPv6 address": Failed,
		"client-1 has not started": NotAsked, "the API server does not reach server-0": NotAsked} {
		if got[text] != state {
			t.Errorf("%q is %q, want %q, in %v", text, got[text], state, got)
		}
	}
	client.End = server.End
	s.pods["server-1"] = client
	for _, q := range s.podToService(pair{0, 1, corev1.IPv4Protocol}) {
		if r := s.before(q, map[string]bool{"client-0": true}); r.State != NotAsked {
			t.Errorf("the Service of a pod that has not started is asked: %+v", r)
		}
	}
}

func TestOutsideIsRead(t *testing.T) {
	for text, want := range map[string]string{"203.0.113.7:80": "203.0.113.7 80", "[2001:db8::7]:443": "2001:db8::7 443",
		"www.example.com:80": "www.example.com 80"} {
		if host, port, err := splitOutside(text); err != nil || fmt.Sprint(host, " ", port) != want {
			t.Errorf("%s: %s %d, %v", text, host, port, err)
		}
	}
	for _, text := range []string{"", "203.0.113.7", ":80", "a:0", "a:65536", "a:http", "2001:db8::7:80"} {
		if host, port, err := splitOutside(text); err == nil {
			t.Errorf("%q is taken as %s and %d", text, host, port)
		}
	}
}

func TestJudge(t *testing.T) {
	byServer := want{hosts: []string{"server-0", "server-1"}}
	for _, c := range []struct {
		name  string
		want  want
		reply Reply
		err   string // a word of it; empty: none
	}{
		{"the right one answers", byServer, Reply{Responses: []string{"server-1"}}, ""},
		{"Windows writes names in capitals", byServer, Reply{Responses: []string{"SERVER-1"}}, ""},
		{"another one answers", byServer, Reply{Responses: []string{"stranger"}},
			`"stranger" answers, and not server-0 or server-1`},
		{"nobody answers", byServer, Reply{Errors: []string{`Get "http://10.0.0.1/x": dial tcp 10.0.0.1:80: i/o timeout`}},
			"dial tcp 10.0.0.1:80: i/o timeout"},
		{"anybody may answer, with nothing", want{}, Reply{}, ""},
		{"a whole answer", want{bytes: 3}, Reply{Responses: []string{"xxx"}}, ""},
		{"a short answer", want{bytes: 3}, Reply{Responses: []string{"xx"}}, "the answer has 2 bytes, and not 3"},
		{"it is refused", want{refused: true}, Reply{Errors: []string{"i/o timeout"}}, ""},
		{"it is not refused", want{refused: true}, Reply{Responses: []string{"guarded-0"}}, `answered, by "guarded-0"`},
	} {
		err := c.want.judge(c.reply)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "http://") {
			t.Errorf("%s: the error has the URL: %v", c.name, err)
		}
	}
}
