package pods

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

// told is a watcher of node n1 between fake API servers, and what a test does there.
type told struct {
	*Watcher
	t   *testing.T
	own *dynamicfake.FakeDynamicClient
	err atomic.Pointer[error] // of lists of PodNetworks
}

var toldSubnets = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}

// newTold has pods "old", with an annotation, and "new", without one.
func newTold(t *testing.T) *told {
	t.Helper()
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
	}
	old := pod("old")
	old.Annotations = map[string]string{contract.PodNetworkAnnotation: contract.Format(contract.NewPodNetwork("uid-old",
		[]netip.Prefix{netip.MustParsePrefix("10.244.1.3/24")}))}
	n := &told{t: t, own: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{v1alpha1.PodNetworksResource: "PodNetworksList"})}
	nodetest.WithoutGaps(n.own)
	n.own.PrependReactor("list", "*", func(kubetesting.Action) (bool, runtime.Object, error) {
		if err := n.err.Load(); err != nil {
			return true, nil, *err
		}
		return false, nil, nil
	})
	var err error
	if n.Watcher, err = New(nodetest.FakeAPI(old, pod("new")), n.own, "n1"); err != nil {
		t.Fatal(err)
	}
	n.networks.patience = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

func (n *told) objects() dynamic.ResourceInterface {
	return n.own.Resource(v1alpha1.PodNetworksResource).Namespace(contract.PodNetworksNamespace)
}

// says makes PodNetworks n1 with some lines.
func (n *told) says(lines ...any) {
	n.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"pods": lines}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodNetworks"))
	object.SetName("n1")
	object.SetNamespace(contract.PodNetworksNamespace)
	_, err := n.objects().Update(n.t.Context(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = n.objects().Create(n.t.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *told) gone() {
	n.t.Helper()
	if err := n.objects().Delete(n.t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

// becomes waits until a pod has an address, or lacks one with some words.
func (n *told) becomes(name, want string) {
	n.t.Helper()
	got := ""
	n.until(func() bool {
		network, err := n.LookUp(cni.Pod{Namespace: "shop", Name: name, UID: "uid-" + name}, toldSubnets)
		if err != nil {
			got = err.Error()
		} else {
			got = network.Addresses[0].String() + " by " + network.Gateways[0].String() + " at " + network.MAC.String()
		}
		return strings.Contains(got, want)
	}, func() string { return name + ": " + got + ", want " + want })
}

func (n *told) reads(want bool) {
	n.t.Helper()
	n.until(func() bool { return n.ReadsNetworks(!want) == want },
		func() string { return "what the agent says of itself" })
}

func (n *told) until(condition func() bool, what func() string) {
	n.t.Helper()
	deadline := time.After(nodetest.Patience)
	for {
		changed := n.Changes()
		if condition() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			n.t.Fatal(what())
		}
	}
}

const (
	byAnnotation = "10.244.1.3/24 by 10.244.1.1 at 0a:58:0a:f4:01:03"
	lineOfOld    = "shop/old uid-old 10.244.1.9/24"
	byLine       = "10.244.1.9/24 by 10.244.1.1 at 0a:58:0a:f4:01:09"
	lineOfNew    = "shop/new uid-new 10.244.1.4/24"
)

// TestWhatCountsOfAPod: its annotation, and where the node has PodNetworks nothing else than these.
func TestWhatCountsOfAPod(t *testing.T) {
	t.Parallel()
	n := newTold(t)
	n.becomes("old", byAnnotation)
	n.becomes("new", "it has no annotation weft.net/pod-network")
	n.says(lineOfOld, lineOfNew)
	n.KeepsNetworks(false, false)
	n.reads(false)
	n.becomes("old", byAnnotation)

	n.KeepsNetworks(true, false)
	n.reads(true)
	n.becomes("old", byLine)
	n.becomes("new", "10.244.1.4/24")
	n.says(lineOfNew, "nonsense", "shop/old uid-old 10.244.1.3")
	n.becomes("old", "it has no line in PodNetworks weft-nodes/n1: the controller has not allocated")
	n.says(lineOfNew, "shop/old uid-before 10.244.1.9/24")
	n.becomes("old", "it has no line")
	n.says("shop/old uid-old 10.244.2.9/24")
	n.becomes("old", "is not in the node's pod subnets")
	n.gone()
	n.becomes("old", byAnnotation)
	n.says(lineOfOld)
	n.becomes("old", byLine)

	n.KeepsNetworks(false, true)
	n.reads(false)
	n.becomes("old", byAnnotation)
}

// TestAgentThatHasReadPodNetworks waits for them after a restart, and says that it reads them, whatever annotations
// there are.
func TestAgentThatHasReadPodNetworks(t *testing.T) {
	t.Parallel()
	n := newTold(t)
	if n.ReadsNetworks(false) || !n.ReadsNetworks(true) {
		t.Error("before it knows, it does not say what it has said before")
	}
	away := error(apierrors.NewServiceUnavailable("starting"))
	n.err.Store(&away)
	n.says(lineOfOld)
	n.KeepsNetworks(true, true)
	n.becomes("old", "the node's PodNetworks was not read yet")
	if !n.ReadsNetworks(true) {
		t.Error("it says that it does not read")
	}
	n.err.Store(nil)
	n.becomes("old", byLine)
}

// TestAgentThatMayNotReadPodNetworks: annotations count, and it says that it does not read, until it may.
func TestAgentThatMayNotReadPodNetworks(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"no right": apierrors.NewForbidden(v1alpha1.PodNetworksResource.GroupResource(), "", nil),
		"no kind":  apierrors.NewNotFound(v1alpha1.PodNetworksResource.GroupResource(), ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTold(t)
			n.err.Store(&err)
			n.says(lineOfOld)
			n.KeepsNetworks(true, true)
			n.reads(false)
			n.becomes("old", byAnnotation)
			n.err.Store(nil)
			n.reads(true)
			n.becomes("old", byLine)
		})
	}
}
