package connectivity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// street is a cluster of four nodes, whose pods start at once, and an IPv4 network without a fault. Tests give it some.
type street struct {
	*fake.Clientset
	// start changes how a pod is when it has started.
	start func(p *corev1.Pod)
	// meets is what a pod meets on a way that has a fault; nil where there is none.
	meets func(pod string, d Dial) error
	// lenient: it obeys no policy.
	lenient bool
	// unreached is why the API server does not reach a pod.
	unreached func(pod string) error

	mu      sync.Mutex
	servers map[string]string // host names by address
	pods    int
	asked   map[string]int // by pod and target
	said    []string
}

func newStreet(nodes ...runtime.Object) *street {
	if nodes == nil {
		nodes = []runtime.Object{newClusterNode("l1", linux, "192.0.2.1"), newClusterNode("l2", linux, "192.0.2.2"),
			newClusterNode("w1", windows, "192.0.2.3"), newClusterNode("w2", windows, "192.0.2.4")}
	}
	s := &street{Clientset: fake.NewClientset(nodes...), servers: map[string]string{}, asked: map[string]int{},
		start: func(*corev1.Pod) {}, meets: func(string, Dial) error { return nil },
		unreached: func(string) error { return nil }}
	s.PrependReactor("create", "pods", s.startPod)
	s.PrependReactor("create", "services", s.giveAddresses)
	return s
}

// startPod is kubelet's and the network's part.
func (s *street) startPod(action clienttesting.Action) (bool, runtime.Object, error) {
	p := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods++
	p.Namespace = action.GetNamespace()
	addr := fmt.Sprintf("10.244.0.%d", s.pods)
	s.servers[addr] = p.Name
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: addr, PodIPs: []corev1.PodIP{{IP: addr}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	s.start(p)
	return false, nil, nil
}

// giveAddresses is the API server's part.
func (s *street) giveAddresses(action clienttesting.Action) (bool, runtime.Object, error) {
	o := action.(clienttesting.CreateAction).GetObject().(*corev1.Service)
	s.mu.Lock()
	defer s.mu.Unlock()
	addr := fmt.Sprintf("10.96.0.%d", len(s.servers)+1)
	s.servers[addr], s.servers[o.Name] = o.Name, o.Name
	if o.Name == allServers || o.Name == localServers {
		s.servers[addr] = numbered(serverRole, 0)
	}
	o.Spec.ClusterIPs = []string{addr}
	for i := range o.Spec.Ports {
		if o.Spec.Type == corev1.ServiceTypeNodePort {
			o.Spec.Ports[i].NodePort = int32(30000 + len(s.servers))
		}
	}
	return false, nil, nil
}

// Ask is the network's part.
func (s *street) Ask(ctx context.Context, _, pod string, _ int, d Dial) (Reply, error) {
	if err := errors.Join(ctx.Err(), s.unreached(pod)); err != nil {
		return Reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[pod+" "+d.String()]++
	if err := s.meets(pod, d); err != nil {
		return Reply{Errors: []string{err.Error()}}, nil
	}
	return s.answer(pod, d), nil
}

// answer is that of a network without a fault, which obeys the policy.
func (s *street) answer(pod string, d Dial) Reply {
	who, known := s.servers[d.Host]
	addr, _ := netip.ParseAddr(d.Host)
	switch {
	case addr.IsLoopback():
		who = pod
	case strings.HasPrefix(who, string(guardedRole)) && !strings.HasPrefix(pod, string(clientRole)) && !s.lenient:
		return Reply{Errors: []string{"i/o timeout"}}
	case d.Request != "hostname":
		who = strings.Repeat("x", answerBytes)
	case !known: // a node's address
		who = numbered(serverRole, 0)
	}
	return Reply{Responses: []string{who}}
}

// warn writes a Warning about a pod.
func (s *street) warn(t *testing.T, p *corev1.Pod, reason, message string, ago time.Duration) {
	t.Helper()
	if err := s.Tracker().Add(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: reason},
		InvolvedObject: corev1.ObjectReference{Name: p.Name}, Type: corev1.EventTypeWarning, Reason: reason,
		Message: message, LastTimestamp: metav1.NewTime(time.Now().Add(-ago))}); err != nil {
		t.Error(err)
	}
}

func forbidden(resource, name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("it may not"))
}

func (s *street) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *street) test() *Test {
	return &Test{Client: s, Asker: s, Say: s.say, Options: Options{MaxNodes: 8, Image: "agnhost", WindowsImage: "agnhost",
		HostNetwork: true, HostPort: 18080, StartTimeout: 10 * time.Minute, Outside: "203.0.113.7:80"}}
}

// spaces are the test's namespaces that are there.
func (s *street) spaces(t *testing.T) (names []string) {
	t.Helper()
	list, err := s.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	return names
}

// faults are the ways that have failed, and how many of their questions, by the first error of each.
func faults(r *Report) string {
	var lines []string
	for _, s := range r.Summaries() {
		at := slices.IndexFunc(r.Results, func(r Result) bool { return r.Way == s.Way && r.State == Failed })
		if at >= 0 {
			lines = append(lines, fmt.Sprintf("%s %d: %s", s.Way, s.Failed, r.Results[at].Error))
		}
	}
	return strings.Join(lines, "; ")
}

// TestRun: each fault fails the ways that have it, and no other, and nothing is left behind.
func TestRun(t *testing.T) {
	timeout := errors.New("i/o timeout")
	for _, c := range []struct {
		name     string
		give     func(s *street)
		want     string // faults
		notAsked int
	}{
		{"no fault", func(*street) {}, "", 0},
		{"no UDP to Services", func(s *street) {
			s.meets = func(_ string, d Dial) error {
				if d.Port == serviceUDPPort {
					return timeout
				}
				return nil
			}
		}, "pod to ClusterIP 16: i/o timeout; host to ClusterIP 8: i/o timeout", 0},
		{"no large datagrams", func(s *street) {
			s.meets = func(_ string, d Dial) error {
				if strings.HasPrefix(d.Request, "echo ") {
					return timeout
				}
				return nil
			}
		}, "large datagram, UDP 16: i/o timeout", 0},
		{"a policy that nobody enforces", func(s *street) { s.lenient = true },
			`policy, refused 16: it is answered, by "guarded-0", and the policy refuses it`, 0},
		{"an API server that does not reach a pod", func(s *street) {
			s.unreached = func(pod string) error {
				if pod == "client-2" {
					return errors.New("error trying to reach service")
				}
				return nil
			}
		}, "API server to pod 1: error trying to reach service", 4*(2+2+2+2+1+1) + 2},
		{"a pod that does not start", func(s *street) {
			s.start = func(p *corev1.Pod) {
				if p.Name == "server-3" {
					p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
						State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}}
				}
			}
		}, "pod starts 1: ContainerCreating", 1 + 1 + 4*(2+2+2) + 2*3 + 4 + 1},
		{"a pod that its kubelet does not reach", func(s *street) {
			s.start = func(p *corev1.Pod) {
				if p.Name == "server-3" {
					p.Status.Conditions = nil
					s.warn(t, p, "Unhealthy", "Readiness probe failed: timeout", time.Minute)
					s.warn(t, p, "FailedMount", "an old story", time.Hour)
				}
			}
		}, "host to its own pod 1: the pod is not Ready: Unhealthy: Readiness probe failed: timeout", 0},
		{"a pod that is refused", func(s *street) {
			s.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if p := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod); !p.Spec.HostNetwork {
					return false, nil, nil
				}
				return true, nil, forbidden("pods", "host")
			})
		}, `pod starts 2: pods "host" is forbidden: it may not`, 2 + 2*4*3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStreet()
				c.give(s)
				r, err := s.test().Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got := faults(r); got != c.want || r.Counts[NotAsked] != c.notAsked {
					t.Errorf("%q, and %d are not asked; want %q and %d", got, r.Counts[NotAsked], c.want, c.notAsked)
				}
				if (r.Result == Failed) != (c.want != "") || r.Schema != Schema || len(r.Nodes) != 4 {
					t.Errorf("the report is %s of %d nodes", r.Result, len(r.Nodes))
				}
				if left := s.spaces(t); left != nil {
					t.Errorf("%q is left behind", left)
				}
			})
		})
	}
}

// TestWaiting: how long a test waits for a pod depends on what there is to wait for.
func TestWaiting(t *testing.T) {
	waiting := func(reason string, restarts int32) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}}
		}
	}
	for _, c := range []struct {
		name  string
		start func(p *corev1.Pod)
		want  time.Duration
	}{
		{"all are ready", func(*corev1.Pod) {}, 0},
		{"one is not ready", func(p *corev1.Pod) { p.Status.Conditions = nil }, readyTimeout + poll},
		{"one does not start", waiting("ImagePullBackOff", 0), 10 * time.Minute},
		{"one starts again and again", waiting("CrashLoopBackOff", restarts), 0},
		{"one was evicted", func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodFailed} }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := []Node{newNode(newClusterNode("l1", linux, "192.0.2.1"))}
				s := newStreet()
				s.start = func(p *corev1.Pod) {
					if p.Name == "server-0" {
						c.start(p)
					}
				}
				space := &namespace{client: s, name: "test", say: s.say}
				o := s.test().Options
				refused, err := space.create(t.Context(), nodes, o)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if _, err := space.awaitPods(t.Context(), nodes, o, refused); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("it has waited for %v, want %v", took, c.want)
				}
			})
		})
	}
}

// TestAskedAgain: what passes at another attempt has passed, and is told; what never does is asked a few times.
func TestAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(newClusterNode("l1", linux, "192.0.2.1"))
		s.meets = func(pod string, d Dial) error {
			if d.Port == serviceUDPPort && s.asked[pod+" "+d.String()] < 2 || d.Port == 10250 {
				return errors.New("lost")
			}
			return nil
		}
		r, err := s.test().Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sum := range r.Summaries() {
			if sum.Again != map[Way]int{PodToService: 1, HostToService: 1}[sum.Way] {
				t.Errorf("%d of %s have passed at another attempt", sum.Again, sum.Way)
			}
		}
		if got := s.asked["client-0 192.0.2.1:10250/TCP"]; got != attempts || faults(r) != "pod to host 1: lost" {
			t.Errorf("what never passes is asked %d times; %s", got, faults(r))
		}
	})
}

// TestInterrupted: whenever a test is ended, nothing is left behind.
func TestInterrupted(t *testing.T) {
	for name, give := range map[string]func(s *street, interrupt context.CancelFunc){
		"while pods start": func(s *street, interrupt context.CancelFunc) {
			s.start = func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{}
				interrupt()
			}
		},
		"while it asks": func(s *street, interrupt context.CancelFunc) {
			s.meets = func(_ string, d Dial) error {
				if d.Port == serviceHTTPPort {
					interrupt()
				}
				return nil
			}
		},
		"while the namespace is made": func(s *street, interrupt context.CancelFunc) {
			s.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
				interrupt()
				return true, nil, errors.Join(context.Canceled, s.Tracker().Create(action.GetResource(),
					action.(clienttesting.CreateAction).GetObject(), ""))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := newStreet()
				give(s, cancel)
				r, err := s.test().Run(ctx)
				if r != nil || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "is still there") {
					t.Errorf("%v, and a report: %t", err, r != nil)
				}
				if left := s.spaces(t); left != nil {
					t.Errorf("%q is left behind", left)
				}
			})
		})
	}
}

func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		test := s.test()
		test.Keep = true
		r, err := test.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left := s.spaces(t); !slices.Equal(left, []string{r.Namespace}) {
			t.Errorf("there is %q, want %s", left, r.Namespace)
		}
		if last := s.said[len(s.said)-1]; !strings.Contains(last, "kubectl delete namespace "+r.Namespace) {
			t.Errorf("it says at last: %s", last)
		}
	})
}

// TestNotRemoved: the error has what the deletion waits for, and what to do. There is a report nevertheless.
func TestNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		s.PrependReactor("delete", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, nil
		})
		s.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &corev1.Namespace{Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{
				{Status: corev1.ConditionTrue, Message: "discovery of a group fails"}, {Message: "not so"}}}}, nil
		})
		r, err := s.test().Run(t.Context())
		if r == nil || err == nil {
			t.Fatalf("%v, and a report: %t", err, r != nil)
		}
		for _, word := range []string{r.Namespace + " is still there: discovery of a group fails. ",
			"`kubectl delete namespace " + r.Namespace + "`"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q has no %q", err, word)
			}
		}
	})
}

// TestNotMade: the error names what cannot be made, and nothing is left behind.
func TestNotMade(t *testing.T) {
	for resource, want := range map[string]string{"namespaces": "create namespace weft-connectivity-",
		"networkpolicies": "create NetworkPolicy weft-connectivity-", "services": "create Service weft-connectivity-",
		"nodes": "list nodes: "} {
		synctest.Test(t, func(t *testing.T) {
			s := newStreet()
			s.PrependReactor(map[bool]string{true: "list", false: "create"}[resource == "nodes"], resource,
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden(resource, "") })
			r, err := s.test().Run(t.Context())
			if r != nil || err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "it may not") {
				t.Errorf("%s: %v, and a report: %t", resource, err, r != nil)
			}
			if left := s.spaces(t); left != nil {
				t.Errorf("%s: %q is left behind", resource, left)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	right := newStreet().test().Options
	if err := right.Check(); err != nil {
		t.Error(err)
	}
	wrong := Options{HostPort: 70000, Outside: "nowhere"}
	err := wrong.Check()
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{"max-nodes: 0", "host-port: 70000", "outside: ", "start-timeout: 0s"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("no %q in %v", key, err)
		}
	}
}
