package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weftnet/weft/models/contract"
)

// newKubernetes connects with what a kubelet may do: read and annotate its own Node, read the Pods
// that are bound to it; and with what the agent needs beside that: read Nodes, Services and EndpointSlices.
// own is for kinds that Kubernetes does not have itself.
func newKubernetes(kubeconfig string) (
	client kubernetes.Interface, own dynamic.Interface, server *apiServer, err error,
) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	server = &apiServer{host: base.Host, tls: config.TLSClientConfig}
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: server.dial}).DialContext
	config.UserAgent, config.QPS, config.Burst = "weft-node", 50, 100 // kubelet's own: a watch may not wait behind Events
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	own, err = dynamic.NewForConfig(config)
	return client, own, server, err
}

// apiServer is where the API server is.
type apiServer struct {
	host string // HOST or HOST:PORT, as the kubeconfig has it
	tls  rest.TLSClientConfig

	mu     sync.Mutex
	dialed []netip.Addr // what a name stood for, the latest first
}

// mostDialed is how many of its addresses are remembered.
const mostDialed = 16

// dial is the dialer's Control: it is told of each address before anything is sent there.
func (s *apiServer) dial(_, at string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(at)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	addr := to.Addr().Unmap()
	others := slices.DeleteFunc(s.dialed, func(a netip.Addr) bool { return a == addr })
	s.dialed = slices.Insert(others, 0, addr)[:min(len(others)+1, mostDialed)]
	return nil
}

// addresses are those that are known.
func (s *apiServer) addresses() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(parseHosts(s.host), s.dialed...)
}

// parseHosts are those of HOST or HOST:PORT that are addresses.
func parseHosts(texts ...string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		host, _, err := net.SplitHostPort(text)
		if err != nil {
			host = strings.Trim(text, "[]")
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}

// ownNode follows this node's Node object.
type ownNode struct {
	name     string
	client   kubernetes.Interface
	informer cache.SharedIndexInformer
}

func newOwnNode(client kubernetes.Interface, name string, changed func()) (*ownNode, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}),
		informers.WithTransform(keepNodeEssentials),
	)
	n := &ownNode{name: name, client: client, informer: factory.Core().V1().Nodes().Informer()}
	_, err := n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	return n, err
}

// keepNodeEssentials drops, among others, the list of images and what kubelet renews of the status.
func keepNodeEssentials(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	kept := &corev1.Node{}
	kept.Name, kept.UID, kept.ResourceVersion = node.Name, node.UID, node.ResourceVersion
	kept.Annotations = map[string]string{}
	for _, key := range []string{contract.NodeNetworkAnnotation, contract.NodeFactsAnnotation} {
		if value, ok := node.Annotations[key]; ok {
			kept.Annotations[key] = value
		}
	}
	if c := conditionAmong(node.Status.Conditions); c.Type != "" {
		kept.Status.Conditions = []corev1.NodeCondition{c}
	}
	return kept, nil
}

// uid is the Node's, "" while it is not known.
func (n *ownNode) uid() string {
	object, exists, err := n.informer.GetStore().GetByKey(n.name)
	if err != nil || !exists {
		return ""
	}
	return string(object.(*corev1.Node).UID)
}

func (n *ownNode) annotations() (map[string]string, error) {
	node, err := n.object()
	if err != nil {
		return nil, err
	}
	return node.Annotations, nil
}

func (n *ownNode) object() (*corev1.Node, error) {
	object, exists, err := n.informer.GetStore().GetByKey(n.name)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("the API server has no Node %s: is kubelet registered under this node-name?", n.name)
	}
	return object.(*corev1.Node), nil
}

// network is what the controller has decided for this node.
func (n *ownNode) network() (contract.NodeNetwork, error) {
	annotations, err := n.annotations()
	if err != nil {
		return contract.NodeNetwork{}, err
	}
	network, present, err := contract.Parse[contract.NodeNetwork](annotations, contract.NodeNetworkAnnotation)
	if err != nil {
		return contract.NodeNetwork{}, fmt.Errorf("node %s: %w", n.name, err)
	}
	if !present || len(network.PodCIDRs) == 0 {
		return contract.NodeNetwork{}, fmt.Errorf("node %s has no pod subnet in its annotation %s: see the node's events, "+
			"and whether `weft controller` runs", n.name, contract.NodeNetworkAnnotation)
	}
	return network, nil
}

// facts are those that stand at the Node; none where nobody can read them.
func (n *ownNode) facts() contract.NodeFacts {
	annotations, err := n.annotations()
	if err != nil {
		return contract.NodeFacts{}
	}
	facts, _, err := contract.Parse[contract.NodeFacts](annotations, contract.NodeFactsAnnotation)
	if err != nil {
		return contract.NodeFacts{}
	}
	return facts
}

// publish writes the facts to the Node unless they stand there already.
func (n *ownNode) publish(ctx context.Context, facts contract.NodeFacts) error {
	annotations, err := n.annotations()
	if err != nil {
		return err
	}
	value := contract.Format(facts)
	if annotations[contract.NodeFactsAnnotation] == value {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{contract.NodeFactsAnnotation: value},
	}})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "weft-node"})
	if err != nil {
		return fmt.Errorf("write the node's facts to Node %s: %w", n.name, err)
	}
	return nil
}

// windowsNodes are the addresses of all Windows nodes. An agent watches its own Node alone.
func (n *ownNode) windowsNodes(ctx context.Context) (map[netip.Addr]struct{}, error) {
	list, err := n.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0", // of the server's cache
		LabelSelector: corev1.LabelOSStable + "=" + contract.Windows})
	if err != nil {
		return nil, fmt.Errorf("list Windows nodes: %w", err)
	}
	addresses := map[netip.Addr]struct{}{}
	for i := range list.Items {
		node := &list.Items[i]
		for _, address := range node.Status.Addresses {
			if parsed, err := netip.ParseAddr(address.Address); err == nil { // others are names
				addresses[parsed] = struct{}{}
			}
		}
		facts, _, _ := contract.Parse[contract.NodeFacts](node.Annotations, contract.NodeFactsAnnotation) // else none
		for _, address := range facts.Addresses {
			addresses[address] = struct{}{}
		}
	}
	return addresses, nil
}
