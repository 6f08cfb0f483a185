package connectivity

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/weftnet/weft/test/apiserver"
)

// controlPlane does what kubelets and the controller of namespaces do, until the test ends.
type controlPlane struct {
	kubernetes.Interface
	t *testing.T

	mu     sync.Mutex
	levels map[string]string // of Pod Security, by namespace
}

func (c *controlPlane) addNode(n *corev1.Node) {
	c.t.Helper()
	made, err := c.CoreV1().Nodes().Create(c.t.Context(), n, metav1.CreateOptions{})
	if err == nil {
		made.Status = n.Status
		_, err = c.CoreV1().Nodes().UpdateStatus(c.t.Context(), made, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *controlPlane) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.startPods(ctx)
		c.endNamespaces(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startPods gives pods an address that the API server's proxy refuses.
func (c *controlPlane) startPods(ctx context.Context) {
	list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return // it comes back
	}
	for _, p := range list.Items {
		if p.Status.PodIP != "" || p.DeletionTimestamp != nil {
			continue
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "netexec", Ready: true,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
		_, err := c.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{})
		if err != nil && ctx.Err() == nil {
			c.t.Logf("start pod %s: %v", p.Name, err)
		}
	}
}

func (c *controlPlane) endNamespaces(ctx context.Context) {
	list, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: nameLabel + "=" + Name})
	if err != nil {
		return // it comes back
	}
	for _, n := range list.Items {
		c.mu.Lock()
		c.levels[n.Name] = n.Labels[podSecurity]
		c.mu.Unlock()
		if n.DeletionTimestamp == nil {
			continue
		}
		err := c.CoreV1().Pods(n.Name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)},
			metav1.ListOptions{})
		if err == nil {
			n.Spec.Finalizers = nil
			_, err = c.CoreV1().Namespaces().Finalize(ctx, &n, metav1.UpdateOptions{})
		}
		if err != nil && ctx.Err() == nil {
			c.t.Logf("end namespace %s: %v", n.Name, err)
		}
	}
}

// level is that of Pod Security in a namespace that is or was there.
func (c *controlPlane) level(namespace string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.levels[namespace]
}

// documentedRole is the ClusterRole that the documents give to users of the test.
func documentedRole(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "```") {
		if role, ok := strings.CutPrefix(block, "yaml\n"); ok && strings.Contains(role, "metadata: {name: "+Name+"}") {
			return role
		}
	}
	t.Fatal("the document has no such role")
	return ""
}

// TestRunOnARealAPIServer, as a user with the rights that the documents give. Pod Security lets all pods in. No pod can
// be asked, since no kubelet has started it, and the report says so.
func TestRunOnARealAPIServer(t *testing.T) {
	s := apiserver.Start(t)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	plane := &controlPlane{Interface: kubernetes.NewForConfigOrDie(config), t: t, levels: map[string]string{}}
	plane.addNode(newClusterNode("l1", linux, "192.0.2.1"))
	plane.addNode(newClusterNode("w1", windows, "192.0.2.2"))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { plane.run(ctx) })
	defer group.Wait()
	defer cancel()
	operator := kubernetes.NewForConfigOrDie(mayTest(t, s, config))
	for hostNetwork, level := range map[bool]string{false: "restricted", true: "privileged"} {
		test := &Test{Client: operator, Asker: Proxy{Client: operator.CoreV1().RESTClient()}, Say: t.Logf,
			Options: Options{MaxNodes: 2, Image: "agnhost", WindowsImage: "agnhost", HostNetwork: hostNetwork,
				HostPort: 18080, StartTimeout: 5 * time.Minute}}
		r, err := test.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := faults(r)
		if !strings.HasPrefix(got, string(APIServerToPod)) || strings.Contains(got, "; ") ||
			!strings.Contains(got, "address not allowed") {
			t.Errorf("with pods on hosts' networks %t: %s", hostNetwork, got)
		}
		if got := plane.level(r.Namespace); got != level {
			t.Errorf("with pods on hosts' networks %t, Pod Security's level is %q, want %q", hostNetwork, got, level)
		}
		if _, err := plane.CoreV1().Namespaces().Get(t.Context(), r.Namespace, metav1.GetOptions{}); err == nil {
			t.Errorf("namespace %s is left behind", r.Namespace)
		}
	}
}

// mayTest is the configuration of a user who may run the test, and nothing else.
func mayTest(t *testing.T, s *apiserver.Server, admin *rest.Config) *rest.Config {
	t.Helper()
	for path, object := range map[string]string{
		"clusterroles": documentedRole(t),
		"clusterrolebindings": `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,
			metadata: {name: operator}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ` + Name + `},
			subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: operator}]}`,
	} {
		if err := s.Create("/apis/rbac.authorization.k8s.io/v1/"+path, object); err != nil {
			t.Fatal(err)
		}
	}
	s.Eventually(t, "the API server knows of the user's rights", func() error {
		_, err := s.As("operator").Do(http.MethodGet, "/api/v1/nodes", "", nil)
		return err
	})
	config := rest.CopyConfig(admin)
	config.Impersonate.UserName = "operator"
	return config
}
