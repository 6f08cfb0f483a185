package connectivity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// namespace is the test's own, and what is in it.
type namespace struct {
	client kubernetes.Interface
	name   string
	say    func(format string, args ...any)
	// mayExist: the API server may have made it.
	mayExist bool
}

const (
	// poll is how often the test looks whether what it waits for is so.
	poll = time.Second
	// accountTimeout is how long a new namespace may lack its ServiceAccount, without which it takes no pods.
	accountTimeout = 30 * time.Second
	// restarts is after how many of them a container is not waited for.
	restarts = 3
	// readyTimeout is how long kubelets' probes may take after all pods have started.
	readyTimeout = 30 * time.Second
	// removeTimeout is how long a namespace may take to go.
	removeTimeout = 3 * time.Minute
)

// create makes everything. Pods that the API server refuses are given with its reason.
func (n *namespace) create(ctx context.Context, nodes []Node, o Options) (refused map[string]string, err error) {
	_, err = n.client.CoreV1().Namespaces().Create(ctx, newNamespace(n.name, nodes, o.HostNetwork), metav1.CreateOptions{})
	// Without an answer nobody knows.
	n.mayExist = err == nil || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
	if err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", n.name, err)
	}
	policy := newPolicy()
	_, err = n.client.NetworkingV1().NetworkPolicies(n.name).Create(ctx, policy, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create NetworkPolicy %s/%s: %w", n.name, policy.Name, err)
	}
	for _, s := range newServices(nodes) {
		if _, err := n.client.CoreV1().Services(n.name).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("create Service %s/%s: %w", n.name, s.Name, err)
		}
	}
	refused = map[string]string{}
	for number, node := range nodes {
		for _, p := range newPods(o, node, number) {
			if err := n.createPod(ctx, p); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				refused[p.Name] = err.Error()
			} else if err != nil {
				return nil, fmt.Errorf("create pod %s/%s: %w", n.name, p.Name, err)
			}
		}
	}
	return refused, nil
}

// createPod waits for the namespace's ServiceAccount.
func (n *namespace) createPod(ctx context.Context, p *corev1.Pod) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, accountTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = n.client.CoreV1().Pods(n.name).Create(ctx, p, metav1.CreateOptions{})
		missing := apierrors.IsForbidden(last) && strings.Contains(last.Error(), "serviceaccount")
		return !missing, nil
	})
	return cmp.Or(last, err)
}

// awaitPods waits until all pods are Ready, or the time for that is over, and gives what there is then.
func (n *namespace) awaitPods(ctx context.Context, nodes []Node, o Options, refused map[string]string) (*scene, error) {
	s := &scene{nodes: nodes, options: o}
	said, problem := "", error(nil)
	err := wait.PollUntilContextTimeout(ctx, poll, o.StartTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := n.client.CoreV1().Pods(n.name).List(ctx, metav1.ListOptions{})
		if problem = err; err != nil {
			return false, nil
		}
		s.look(list.Items, refused, time.Now())
		if text := s.progress(); text != said {
			n.say("%s", text)
			said = text
		}
		return s.settled(time.Now()), nil
	})
	if ctx.Err() != nil || s.pods == nil {
		return nil, fmt.Errorf("wait for the pods of namespace %s: %w", n.name, cmp.Or(problem, err))
	}
	n.explain(ctx, s)
	return s, n.readServices(ctx, s)
}

// explain says for each pod that is not Ready what its last Warning says.
func (n *namespace) explain(ctx context.Context, s *scene) {
	list, err := n.client.CoreV1().Events(n.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		n.say("nobody knows why pods are not ready: list Events of namespace %s: %v", n.name, err)
		return
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return lastTime(&a).Compare(lastTime(&b)) })
	for _, e := range list.Items {
		if p, ok := s.pods[e.InvolvedObject.Name]; ok && !p.ready && e.Type == corev1.EventTypeWarning {
			p.problem = e.Reason + ": " + e.Message
			s.pods[p.Pod] = p
		}
	}
}

// lastTime is when an Event was written last, by old and new writers.
func lastTime(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time)
}

// readServices takes the addresses and ports that the API server has given.
func (n *namespace) readServices(ctx context.Context, s *scene) error {
	list, err := n.client.CoreV1().Services(n.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Services of namespace %s: %w", n.name, err)
	}
	s.services = map[string]service{}
	for _, o := range list.Items {
		of := service{addresses: parseAddresses(o.Spec.ClusterIPs)}
		for _, port := range o.Spec.Ports {
			if port.Port == serviceHTTPPort {
				of.nodePort = int(port.NodePort)
			}
		}
		s.services[o.Name] = of
	}
	return nil
}

// remove deletes the namespace and waits until it has gone.
func (n *namespace) remove(ctx context.Context) error {
	deleted, last := false, error(nil)
	err := wait.PollUntilContextTimeout(ctx, poll, removeTimeout, true, func(ctx context.Context) (bool, error) {
		if !deleted {
			last = n.client.CoreV1().Namespaces().Delete(ctx, n.name, metav1.DeleteOptions{})
			deleted = last == nil
		} else {
			last = n.remains(ctx)
		}
		if apierrors.IsNotFound(last) {
			return true, nil
		}
		if apierrors.IsForbidden(last) {
			return false, last
		}
		return false, nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("namespace %s is still there: %w. `kubectl delete namespace %s` removes it; `kubectl get namespace "+
		"%s -o yaml` says what that waits for", n.name, cmp.Or(last, err), n.name, n.name)
}

// remains says why the namespace is still there. It has gone when the error is NotFound.
func (n *namespace) remains(ctx context.Context) error {
	o, err := n.client.CoreV1().Namespaces().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var words []string
	for _, c := range o.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			words = append(words, c.Message)
		}
	}
	return errors.New(cmp.Or(strings.Join(words, "; "), "its deletion has not ended"))
}
