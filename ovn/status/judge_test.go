package status

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

var now = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

func before(d time.Duration) metav1.Time           { return metav1.NewTime(now.Add(-d)) }
func microBefore(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now.Add(-d)) }

// well is the status of a network without a fault: a Linux node, and a Windows node whose ovn-controller c2 runs.
func well() *api.NetworkStatus {
	ready := api.Condition{Current: true, Ready: true, Reason: "InForce", Changed: before(time.Hour)}
	node := func(name, system string) api.NodeStatus {
		return api.NodeStatus{Name: name, Created: before(24 * time.Hour), Ready: true, System: system, Agent: true,
			Chassis: name, Registered: true, Configuration: 7, Ports: 10,
			Subnets: []api.SubnetStatus{{CIDR: "10.244.1.0/24", Used: 10, Free: 242}}}
	}
	s := &api.NetworkStatus{
		Time: metav1.NewMicroTime(now), Door: "c1",
		Leader: api.Lease{Name: "kube-system/weft-controller", Holder: "c1", Renewed: microBefore(time.Second), Seconds: 9},
		Databases: []api.Database{{Name: Northbound, Answers: true, Model: "clustered", Leader: true, Connected: true},
			{Name: Southbound, Answers: true, Model: "clustered", Connected: true}},
		Configuration: api.Configuration{Northbound: 7, Southbound: 7, Translated: microBefore(time.Hour), Chassis: 7},
		Nodes:         []api.NodeStatus{node("l1", "linux"), node("w1", "windows")},
		Pods:          api.PodsStatus{Ports: 20},
		Pools:         []api.PoolStatus{{Name: "web", Used: 1, Free: 9, Condition: ready}},
		EgressIPs:     []api.EgressStatus{{Name: "shop", Addresses: []string{"203.0.113.9"}, Node: "l1", Condition: ready}},
		LoadBalancers: []api.LoadBalancerStatus{{Namespace: "shop", Name: "web", Pool: true,
			Addresses: []string{"203.0.113.70"}, Created: before(time.Hour)}},
		Certificates: []api.Certificate{{Of: "tunnel-ca", Subject: "tunnel", Expires: before(-300 * 24 * time.Hour)}},
	}
	s.Nodes[1].Hosted = true
	s.Nodes[1].Host = &api.Lease{Name: "kube-system/weft-chassis.host-c2", Holder: "c2", Renewed: microBefore(time.Second),
		Seconds: 6}
	return s
}

// wrongs are what may be wrong, with the finding that says so; "" for what is none.
var wrongs = []struct {
	name   string
	change func(*api.NetworkStatus)
	want   string // severity, reason and object
	text   string // words of the text
	remedy string // words of the remedy
}{
	{"all is well", func(*api.NetworkStatus) {}, "", "", ""},
	{"a source is forbidden", func(s *api.NetworkStatus) {
		s.Unread = []api.Unread{{Source: "EgressIPs", Reason: "forbidden"}}
	}, "unknown Unread EgressIPs", "forbidden", "rights.yaml"},
	{"the Northbound's server is gone", func(s *api.NetworkStatus) {
		s.Databases[0] = api.Database{Name: Northbound, Reason: "no such file"}
	}, "failed DatabaseSilent database OVN_Northbound", "beside the door c1 does not answer: no such file", "weft-nb"},
	{"the Southbound's server has lost its cluster", func(s *api.NetworkStatus) {
		s.Databases[1] = api.Database{Name: Southbound, Model: "clustered", Reason: "cut off"}
		s.Nodes[0].Registered = false // nobody can tell
	}, "failed DatabaseCutOff database OVN_Southbound", "cut off", "TCP 6643 and 6644"},
	{"ovn-northd has not followed", func(s *api.NetworkStatus) { s.Configuration.Southbound = 6 },
		"failed NorthdBehind ovn-northd", "configuration 7 of the Northbound, and is at 6", "weft-northd"},
	{"no controller has ever led", func(s *api.NetworkStatus) { s.Leader = api.Lease{} },
		"failed NoLeader Lease kube-system/weft-controller", "it is not there", "lease-name"},
	{"nobody holds the Lease", func(s *api.NetworkStatus) { s.Leader.Holder = "" },
		"failed NoLeader Lease kube-system/weft-controller", "nobody holds it", "weft-controller"},
	{"the leader is dead", func(s *api.NetworkStatus) { s.Leader.Renewed = microBefore(9*time.Second + skew + 1) },
		"failed NoLeader Lease kube-system/weft-controller", "c1 has not renewed it for 19s", "weft-controller"},
	{"the leader's clock is late", func(s *api.NetworkStatus) { s.Leader.Renewed = microBefore(9*time.Second + skew) },
		"", "", ""},
	{"Leases could not be read", func(s *api.NetworkStatus) {
		s.Leader, s.Nodes[1].Host = api.Lease{}, nil
		s.Unread = []api.Unread{{Source: "Leases", Reason: "forbidden"}}
	}, "unknown Unread Leases", "forbidden", "rights.yaml"},
	{"a node is not Ready", func(s *api.NetworkStatus) { s.Nodes[0].Ready, s.Nodes[0].NotReady = false, "no CNI" },
		"failed NodeNotReady Node l1", "no CNI", "kubectl describe node l1"},
	{"a new node is not Ready", func(s *api.NetworkStatus) {
		s.Nodes[0] = api.NodeStatus{Name: "l1", Created: before(settling - 1)}
	}, "", "", ""},
	{"a node has no agent", func(s *api.NetworkStatus) {
		s.Nodes[0].Agent, s.Nodes[0].Registered, s.Nodes[0].Subnets = false, false, nil
	}, "warning NoAgent Node l1", "weft.net/node-facts is missing", "site.yml"},
	{"an agent cannot write what it knows of the node", func(s *api.NetworkStatus) {
		s.Nodes[0].Agent, s.Nodes[0].Registered, s.Nodes[0].Subnets = false, false, nil
		agentSays(api.Condition{Reason: "AgentNotReady", Message: "open-vswitch: no system-id",
			Changed: before(time.Minute)})(s)
	}, "failed AgentNotReady Node l1", "new pods for 60s: open-vswitch: no system-id", "weft doctor"},
	{"an annotation is wrong", func(s *api.NetworkStatus) {
		s.Nodes[0].Wrong, s.Nodes[0].Agent = "annotation weft.net/node-facts is not what weft writes", false
	}, "failed BadAnnotation Node l1", "is not what weft writes", "remove the annotation"},
	{"an agent cannot attach pods", agentSays(api.Condition{Reason: "AgentNotReady", Message: "ovn-controller: it hangs",
		Changed: before(time.Minute)}), "failed AgentNotReady Node l1", "new pods for 60s: ovn-controller: it hangs",
		"weft doctor"},
	{"an agent knows of something else", agentSays(api.Condition{Ready: true, Reason: "AgentWarns",
		Message: "next-hops: none"}), "warning AgentWarns Node l1", "its agent says: next-hops: none",
		"give the host a default route by the external bridge, or set gateway-next-hops; on the node: `weft doctor`"},
	{"an agent knows of two things", agentSays(api.Condition{Ready: true, Reason: "AgentWarns",
		Message: "mtu: 1500 is too much; next-hops: none"}), "warning AgentWarns Node l1", "mtu: 1500",
		"mtu: lower uplink-mtu, or raise the MTU of the interface; next-hops: give the host"},
	{"an agent knows of something new", agentSays(api.Condition{Ready: true, Reason: "AgentWarns",
		Message: "moon: full"}), "warning AgentWarns Node l1", "moon: full", "do what the message says; on the node"},
	{"an agent cannot attach pods, and knows why", agentSays(api.Condition{Reason: "AgentNotReady",
		Message: "uplink: no adapter; hns: it hangs", Changed: before(time.Minute)}), "failed AgentNotReady Node l1",
		"uplink: no adapter", "do what the message says; hns: on the node: `Restart-Service hns -Force`"},
	{"an agent says that all is well", agentSays(api.Condition{Ready: true, Reason: "AgentReady"}), "", "", ""},
	{"an agent has told of something before", func(s *api.NetworkStatus) {
		agentSays(api.Condition{Ready: true, Reason: "AgentReady"})(s)
		s.Events = []api.EventGroup{{Object: "Node l1", Reason: "NextHopMissing", Component: "weft-node", Count: 1,
			Last: before(time.Minute)}}
	}, "", "", ""},
	{"an agent has told of a pod", func(s *api.NetworkStatus) {
		agentSays(api.Condition{Ready: true, Reason: "AgentReady"})(s)
		s.Events = []api.EventGroup{{Object: "Pod shop/p0", Reason: "HostPortTaken", Component: "weft-node", Count: 1,
			Last: before(time.Minute)}}
	}, "warning Event Pod shop/p0", "HostPortTaken, 60s ago", "events.md"},
	{"a node has no chassis", func(s *api.NetworkStatus) { s.Nodes[0].Registered = false },
		"failed NoChassis Node l1", "has no chassis l1", "weft-ovn-controller"},
	{"a node of another zone", func(s *api.NetworkStatus) {
		s.Nodes[0].Registered, s.Nodes[0].Configuration, s.Nodes[0].Remote = false, 0, true
	}, "", "", ""},
	{"a Windows node has no chassis", func(s *api.NetworkStatus) { s.Nodes[1].Registered = false },
		"failed NoChassis Node w1", "which a chassis host runs", "journalctl -u weft-chassis"},
	{"a chassis is behind", func(s *api.NetworkStatus) { s.Nodes[0].Configuration, s.Nodes[0].Behind = 5, 2 },
		"failed ChassisBehind Node l1", "configuration 5, 2 behind the Southbound of 60m ago", "weft-ovn-controller"},
	{"a chassis has missed a configuration before the latest", func(s *api.NetworkStatus) {
		s.Nodes[0].Behind, s.Configuration.Translated = 2, microBefore(following+time.Second)
	}, "failed ChassisBehind Node l1", "2 behind the Southbound of 11s ago", "weft-ovn-controller"},
	{"a chassis follows two configurations just now", func(s *api.NetworkStatus) {
		s.Nodes[0].Behind, s.Configuration.Translated = 2, microBefore(following)
	}, "", "", ""},
	{"a Windows node's chassis is behind", func(s *api.NetworkStatus) { s.Nodes[1].Behind = 2 },
		"failed ChassisBehind Node w1", "2 behind", "on its chassis host"},
	{"a chassis follows just now", func(s *api.NetworkStatus) {
		s.Nodes[0].Behind, s.Configuration.Translated = 1, microBefore(catchingUp)
	}, "", "", ""},
	{"no chassis host has a Windows node", func(s *api.NetworkStatus) { s.Nodes[1].Host = nil },
		"failed NoChassisHost Node w1", "no chassis host runs", "weft-chassis"},
	{"no chassis host of its zone has a Windows node", func(s *api.NetworkStatus) {
		s.Nodes[1].Host, s.Nodes[1].Zone = nil, "b"
	}, "failed NoChassisHost Node w1", "no chassis host of zone b runs", "on the chassis hosts of zone b, whose key zone"},
	{"the chassis host of a zone is dead", func(s *api.NetworkStatus) {
		s.Nodes[1].Host.Renewed, s.Nodes[1].Zone = microBefore(time.Minute), "b"
	}, "failed NoChassisHost Node w1", "c2, which runs its ovn-controller", "another one of zone b takes the node over"},
	{"a Windows node's chassis host is dead", func(s *api.NetworkStatus) {
		s.Nodes[1].Host.Renewed = microBefore(time.Minute)
	}, "failed NoChassisHost Node w1", "c2, which runs its ovn-controller", "another one takes the node over"},
	{"a chassis host does not reach an agent", func(s *api.NetworkStatus) { s.Nodes[1].Unreachable = true },
		"failed AgentUnreachable Node w1", "c2 does not reach its agent", "TCP 16642"},
	{"a node has no pod subnet", func(s *api.NetworkStatus) { s.Nodes[0].Subnets = nil },
		"failed NoPodSubnet Node l1", "no pod subnet", "spec.podCIDRs"},
	{"a subnet is full", func(s *api.NetworkStatus) {
		s.Nodes[0].Subnets[0].Used, s.Nodes[0].Subnets[0].Free = 252, 0
	}, "warning NoFreeAddress Node l1", "all 252 addresses of its subnet 10.244.1.0/24", "maxPods"},
	{"two nodes have one chassis name", func(s *api.NetworkStatus) { s.Nodes[1].Chassis = "l1" },
		"failed DuplicateChassis Nodes l1 and w1", "the same chassis name l1", "system-id"},
	{"a chassis of no node", func(s *api.NetworkStatus) { s.Strays = []string{"old"} },
		"warning StrayChassis chassis old", "of no Node", "chassis-del"},
	{"a pod has no address", wait(lacksAddress), "failed PodsWithoutAddress Pod shop/p0",
		"on node l1 for 5m: the controller has given it no address", "kubectl describe pod"},
	{"a pod's port is not in the Southbound", wait(lacksBinding), "failed PodsWithoutBinding Pod shop/p0",
		"ovn-northd has not", "weft-northd"},
	{"no chassis has claimed a pod", wait(lacksChassis), "failed PodsUnclaimed Pod shop/p0",
		"agent or ovn-controller does not run", "weft doctor"},
	{"a pod waits for its image", wait(lacksSandbox), "", "", ""},
	{"more pods wait than are read", func(s *api.NetworkStatus) { s.Pods.Truncated = true }, "failed ManyPodsWait Pods",
		"more than 2000", "other findings"},
	{"a pool is wrong", func(s *api.NetworkStatus) {
		s.Pools[0].Condition.Ready, s.Pools[0].Condition.Message = false, "spec.ranges[0]: x"
	}, "failed PoolNotReady AddressPool web", "spec.ranges[0]: x", "correct"},
	{"a pool is used up", func(s *api.NetworkStatus) { s.Pools[0].Used, s.Pools[0].Free = 10, 0 },
		"warning PoolUsedUp AddressPool web", "all 10 addresses", "spec.ranges"},
	{"an EgressIP has no node", func(s *api.NetworkStatus) {
		s.EgressIPs[0].Condition = api.Condition{Current: true, Reason: "NoNode", Message: "none selected"}
	}, "failed EgressNotReady EgressIP shop", "NoNode: none selected", "correct"},
	{"nothing was said of an EgressIP", func(s *api.NetworkStatus) { s.EgressIPs[0].Condition.Current = false },
		"warning NothingSaid EgressIP shop", "latest change", "log of weft controller"},
	{"a new EgressIP", func(s *api.NetworkStatus) {
		s.EgressIPs[0].Condition = api.Condition{Changed: before(settling - 1)}
	}, "", "", ""},
	{"a Service waits for an address", func(s *api.NetworkStatus) { s.LoadBalancers[0].Addresses = nil },
		"warning NoLoadBalancerAddress Service shop/web", "no AddressPool", "ranges"},
	{"a Service of another provider waits", func(s *api.NetworkStatus) {
		s.LoadBalancers[0].Addresses, s.LoadBalancers[0].Pool = nil, false
	}, "", "", ""},
	{"a policy is not in force", refuse(api.PolicyStatus{Kind: "NetworkPolicy", Namespace: "shop", Name: "db",
		Condition: api.Condition{Current: true, Reason: "BadPolicy", Message: "spec.ingress[0]: x"}}),
		"failed PolicyNotInForce NetworkPolicy shop/db", "BadPolicy: spec.ingress[0]: x", "correct"},
	{"a part of a policy is not", refuse(api.PolicyStatus{Kind: "ClusterNetworkPolicy", Name: "guard", InForce: true,
		Condition: api.Condition{Current: true, Reason: partly, Message: "spec.egress[1]: x"}}),
		"warning PolicyPartlyInForce ClusterNetworkPolicy guard", "spec.egress[1]: x", "correct"},
	{"nothing was said of a policy", refuse(api.PolicyStatus{Kind: "NetworkPolicy", Namespace: "shop", Name: "db",
		Condition: api.Condition{Changed: before(time.Hour)}}), "warning NothingSaid NetworkPolicy shop/db", "latest change",
		"log"},
	{"Warnings of a moment ago", warn(recent), "warning Event Service shop/web", "AddressTaken, 10m ago, 3 times: has two",
		"events.md"},
	{"more Warnings than are read", func(s *api.NetworkStatus) { s.EventsTruncated = true }, "unknown ManyWarnings Events",
		"some are missing", "kubectl get events"},
	{"a Warning about a Node", func(s *api.NetworkStatus) {
		s.Events = []api.EventGroup{{Object: "Node w1", Reason: "ChassisUnreachable", Component: "weft-chassis", Count: 1,
			Last: before(time.Minute), Message: "run this"}}
	}, "warning Event Node w1", "ChassisUnreachable, 60s ago, once: run this",
		"docs/reference/events.md says what to do about ChassisUnreachable; on the node: `weft doctor`"},
	{"a Warning about what is gone", func(s *api.NetworkStatus) {
		warn(recent)(s)
		s.Events[0].Gone = true
	}, "", "", ""},
	{"a Warning that no program of Weft writes", func(s *api.NetworkStatus) {
		warn(recent)(s)
		s.Events[0].Reason = "DeleteTheNode"
	}, "", "", ""},
	{"news are no Warning", func(s *api.NetworkStatus) {
		warn(recent)(s)
		s.Events[0].Reason = "ChassisTakenOver"
	}, "", "", ""},
	{"Warnings of long ago", warn(recent + 1), "", "", ""},
	{"what Windows nodes lack", func(s *api.NetworkStatus) {
		warn(recent)(s)
		s.Events[0].Reason = "WindowsDatapath"
	}, "", "", ""},
	{"an authority has expired", func(s *api.NetworkStatus) { s.Certificates[0].Expires = before(time.Hour) },
		"failed CertificateExpired certificate tunnel-ca", "tunnel expired 60m ago", "rotate it"},
	{"an authority expires soon", func(s *api.NetworkStatus) { s.Certificates[0].Expires = before(1 - expiring) },
		"warning CertificateExpires certificate tunnel-ca", "tunnel expires in 29d", "rotate it"},
	{"the door's own certificate expires soon", func(s *api.NetworkStatus) {
		s.Certificates[0] = api.Certificate{Of: "tunnel-certificate", Subject: "observe.weft.net",
			Expires: before(1 - expiring)}
	}, "warning CertificateExpires certificate tunnel-certificate", "observe.weft.net expires in 29d",
		"`certificates.yml` renews it"},
	{"an authority is good for a while", func(s *api.NetworkStatus) { s.Certificates[0].Expires = before(-expiring) },
		"", "", ""},
}

func agentSays(c api.Condition) func(*api.NetworkStatus) {
	return func(s *api.NetworkStatus) {
		c.Current = true
		s.Nodes[0].AgentCondition = &c
	}
}

func wait(lacks string) func(*api.NetworkStatus) {
	return func(s *api.NetworkStatus) {
		s.Pods.Longest = []api.WaitingPod{{Namespace: "shop", Name: "p0", Node: "l1", Since: before(5 * time.Minute),
			Lacks: lacks}}
		s.Pods.Lacking, s.Pods.Waiting = lacking(s.Pods.Longest), 1
	}
}

func refuse(p api.PolicyStatus) func(*api.NetworkStatus) {
	return func(s *api.NetworkStatus) { s.NotInForce = []api.PolicyStatus{p} }
}

func warn(age time.Duration) func(*api.NetworkStatus) {
	return func(s *api.NetworkStatus) {
		s.Events = []api.EventGroup{{Object: "Service shop/web", Reason: "AddressTaken", Component: "weft-controller",
			Count: 3, Last: before(age), Message: "has two users\n"}}
	}
}

// TestWhatIsWrongIsSaid: each fault has its one finding, and what is no fault has none.
func TestWhatIsWrongIsSaid(t *testing.T) {
	said := map[string]bool{}
	for _, c := range wrongs {
		t.Run(c.name, func(t *testing.T) {
			s := well()
			c.change(s)
			found := Judge(s)
			if c.want == "" {
				if len(found) > 0 || resultOf(found) != api.OK {
					t.Errorf("%+v is %s", found, resultOf(found))
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("there are %d findings: %+v", len(found), found)
			}
			f := found[0]
			said[f.Reason] = true
			if got := fmt.Sprintf("%s %s %s", f.Severity, f.Reason, f.Object); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if f.Reason == "Event" && strings.Contains(f.Remedy, "message") {
				t.Errorf("the remedy %q trusts the message", f.Remedy)
			}
			if !strings.Contains(f.Text, c.text) || !strings.Contains(f.Remedy, c.remedy) || f.Remedy == "" {
				t.Errorf("%q, to do: %q; want %q and %q in them", f.Text, f.Remedy, c.text, c.remedy)
			}
			if resultOf(found) != f.Severity {
				t.Errorf("the result is %s", resultOf(found))
			}
		})
	}
	source, err := os.ReadFile("judge.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`(?:api\.(?:Failed|Warning|Unknown), |lacks[A-Z]\w+: \{|\+[pe]\.Name, )"(\w+)"`)
	all := reasons.FindAllSubmatch(source, -1)
	if len(all) < 25 {
		t.Errorf("judge.go has only the reasons %q, as far as the test can read it", all)
	}
	for _, match := range all {
		if !said[string(match[1])] {
			t.Errorf("no case is about the finding %s", match[1])
		}
	}
}

// TestTheWorstComeFirst, those of a reason stand together, and few of them are listed.
func TestTheWorstComeFirst(t *testing.T) {
	s := well()
	s.Strays = []string{"a", "b", "c", "d", "e", "f", "g"}
	s.Unread = []api.Unread{{Source: "EgressIPs", Reason: "forbidden"}}
	s.Configuration.Southbound = 6
	for i := range mostWaiting {
		s.Pods.Longest = append(s.Pods.Longest, api.WaitingPod{Namespace: "shop", Name: fmt.Sprint("p", i), Node: "l1",
			Since: before(time.Hour), Lacks: lacksChassis})
	}
	s.Pods.Lacking = []api.LackCount{{Lacks: lacksAddress, Pods: 3}, {Lacks: lacksChassis, Pods: 1000}}
	var got []string
	for _, f := range Judge(s) {
		got = append(got, fmt.Sprintf("%s %s %s %d", f.Severity, f.Reason, f.Object, f.More))
	}
	want := []string{
		"failed NorthdBehind ovn-northd 0", "failed PodsWithoutAddress Pods 2", "failed PodsUnclaimed Pod shop/p0 0",
		"failed PodsUnclaimed Pod shop/p1 0", "failed PodsUnclaimed Pod shop/p2 0", "failed PodsUnclaimed Pod shop/p3 0",
		"failed PodsUnclaimed Pod shop/p4 995", "warning StrayChassis chassis a 0", "warning StrayChassis chassis b 0",
		"warning StrayChassis chassis c 0", "warning StrayChassis chassis d 0", "warning StrayChassis chassis e 2",
		"unknown Unread EgressIPs 0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
