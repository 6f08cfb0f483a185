package pods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/node/hostservice"
)

// mirrorHash is kubelet's annotation on the API's copy of a static pod: the UID that kubelet
// itself gives the pod, and passes to CNI.
const mirrorHash = "kubernetes.io/config.hash"

// Watcher follows the Pods of this node.
type Watcher struct {
	Informer cache.SharedIndexInformer
	networks *networks // nil where the agent reads none

	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each change
}

// New follows the Pods of a node, and its PodNetworks where own is not nil. It does nothing until [Watcher.Run].
func New(client kubernetes.Interface, own dynamic.Interface, node string) (*Watcher, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		}),
		informers.WithTransform(keepPodEssentials),
	)
	p := &Watcher{Informer: factory.Core().V1().Pods().Informer(), changed: make(chan struct{})}
	_, err := p.Informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.Wake() },
		UpdateFunc: func(any, any) { p.Wake() },
		DeleteFunc: func(any) { p.Wake() },
	})
	if own != nil {
		p.networks = newNetworks(own, node, p.Wake)
	}
	return p, err
}

// Run follows until ctx ends.
func (p *Watcher) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { p.Informer.RunWithContext(ctx) })
	if p.networks != nil {
		parts.Go(func() { p.networks.run(ctx) })
	}
	parts.Wait()
}

// KeepsNetworks takes in whether the controller keeps PodNetworks for this node, and whether the agent has said at the
// Node that it reads it.
func (p *Watcher) KeepsNetworks(keeps, said bool) {
	if p.networks != nil {
		p.networks.set(keeps, said)
	}
}

// ReadsNetworks is what the agent says of itself: whether it reads PodNetworks. While it does not know, that is what it
// has said before.
func (p *Watcher) ReadsNetworks(said bool) bool { return p.networks != nil && p.networks.reads(said) }

// keepPodEssentials drops what the agent does not read before it is stored.
func keepPodEssentials(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion
	kept.Annotations = map[string]string{}
	for _, key := range []string{contract.PodNetworkAnnotation, mirrorHash} {
		if value, ok := pod.Annotations[key]; ok {
			kept.Annotations[key] = value
		}
	}
	kept.CreationTimestamp, kept.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	kept.Status.Phase = pod.Status.Phase
	kept.Spec.Containers = onlyHostPorts(pod)
	kept.Spec.NodeName = pod.Spec.NodeName
	kept.Spec.HostNetwork = usesHostsNetwork(pod)
	return kept, nil
}

// usesHostsNetwork: containers of a host process share the host's network as well (Kubernetes'
// "Create a Windows HostProcess Pod").
func usesHostsNetwork(pod *corev1.Pod) bool {
	windows := func(options *corev1.WindowsSecurityContextOptions) bool {
		return options != nil && options.HostProcess != nil && *options.HostProcess
	}
	if pod.Spec.HostNetwork || pod.Spec.SecurityContext != nil && windows(pod.Spec.SecurityContext.WindowsOptions) {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.SecurityContext != nil && windows(c.SecurityContext.WindowsOptions)
	})
}

func (p *Watcher) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Watcher) Changes() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Network is what the controller has given a pod, read and checked.
type Network struct {
	UID       string // in the API, which differs from kubelet's for a static pod
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Gateways  []netip.Addr
}

// ErrGone: the API has another pod of that name, or none any more.
var ErrGone = errors.New("the pod was deleted")

// ErrHostsNetwork: a runtime does not ask for an interface of such a pod.
var ErrHostsNetwork = errors.New("it uses the host's network (spec.hostNetwork, or hostProcess in windowsOptions) " +
	"and has no interface of its own")

// Wait returns the network of exactly this pod once the controller has allocated it. When ctx ends
// before, the error says what was missing.
func (p *Watcher) Wait(ctx context.Context, pod cni.Pod, subnets func() []netip.Prefix) (*Network, error) {
	seen := false
	behind := time.NewTimer(informerLag)
	defer behind.Stop()
	for {
		changed := p.Changes()
		network, problem := p.LookUp(pod, subnets())
		gone := errors.Is(problem, ErrGone)
		switch {
		case problem == nil:
			return network, nil
		case gone && seen, errors.Is(problem, ErrHostsNetwork):
			return nil, problem
		}
		seen = seen || !gone
		select {
		case <-changed:
		case <-behind.C:
			if gone {
				return nil, problem
			}
		case <-ctx.Done():
			return nil, problem
		}
	}
}

// ErrReaddressed: the controller has given a pod other addresses since they were asked for.
var ErrReaddressed = errors.New("the controller has changed the pod's addresses meanwhile")

// Verify says whether a pod still has the network that Wait returned. A pod that is gone needs no other one:
// its sandbox is about to go, too.
func (p *Watcher) Verify(pod cni.Pod, network *Network, subnets []netip.Prefix) error {
	now, err := p.LookUp(pod, subnets)
	switch {
	case errors.Is(err, ErrGone):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrReaddressed, err)
	case now.MAC.String() != network.MAC.String() || !slices.Equal(now.Addresses, network.Addresses) ||
		!slices.Equal(now.Gateways, network.Gateways):
		return fmt.Errorf("%w: they were %v, and are %v", ErrReaddressed, network.Addresses, now.Addresses)
	}
	return nil
}

// informerLag is how far the agent's view of the pods may be behind kubelet's. A pod that is not
// there by then was deleted; kubelet asks again if it was not.
const informerLag = 3 * time.Second

// LookUp takes an annotation for the controller's only if it names the UID that the API server gave
// the pod. Whoever creates a pod can write the annotation, but cannot know that UID. It is the API
// object's also for a static pod: the controller knows no other.
func (p *Watcher) LookUp(pod cni.Pod, subnets []netip.Prefix) (*Network, error) {
	object, exists, err := p.Informer.GetStore().GetByKey(pod.String())
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("%w, or the API server has not shown it on this node yet", ErrGone)
	}
	found := object.(*corev1.Pod)
	if string(found.UID) != pod.UID && found.Annotations[mirrorHash] != pod.UID {
		return nil, fmt.Errorf("%w: the API server has one of UID %s in place of %s", ErrGone, found.UID, pod.UID)
	}
	if found.Spec.HostNetwork {
		return nil, ErrHostsNetwork
	}
	told, where, err := p.told(found)
	if err != nil {
		return nil, err
	}
	network, err := checkPodNetwork(told, subnets)
	if err != nil {
		return nil, fmt.Errorf("its %s: %w; the controller writes it again when it is removed", where, err)
	}
	network.UID = string(found.UID)
	return network, nil
}

// told is what the controller has told of a pod, and where. Where the node has PodNetworks, that alone counts.
func (p *Watcher) told(pod *corev1.Pod) (network contract.PodNetwork, where string, err error) {
	if p.networks != nil {
		line, counts, known := p.networks.lineOf(string(pod.UID))
		where = "line in PodNetworks " + contract.PodNetworksNamespace + "/" + p.networks.node
		switch {
		case counts && !known:
			return network, where, fmt.Errorf("the node's PodNetworks was not read yet: see whether the API server answers")
		case counts && len(line.Addresses) == 0:
			return network, where, fmt.Errorf("it has no %s: %s", where, notAllocated)
		case counts:
			return contract.NewPodNetwork(line.UID, line.Addresses), where, nil
		}
	}
	where = "annotation " + contract.PodNetworkAnnotation
	network, present, err := contract.Parse[contract.PodNetwork](pod.Annotations, contract.PodNetworkAnnotation)
	switch {
	case err != nil:
	case !present:
		err = fmt.Errorf("it has no %s: %s", where, notAllocated)
	case network.UID != string(pod.UID):
		err = fmt.Errorf("it has an %s for UID %q and is %s itself: the controller did not write that; %s", where,
			network.UID, pod.UID, notAllocated)
	}
	return network, where, err
}

// notAllocated is what a pod without addresses waits for.
const notAllocated = "the controller has not allocated its address; see the pod's events, and whether " +
	"`weft controller` runs"

// Leaving says whether the pod is on its way out, or gone.
func (p *Watcher) Leaving(pod cni.Pod) bool {
	object, exists, err := p.Informer.GetStore().GetByKey(pod.String())
	return err == nil && (!exists || object.(*corev1.Pod).DeletionTimestamp != nil)
}

func checkPodNetwork(told contract.PodNetwork, subnets []netip.Prefix) (*Network, error) {
	mac, err := net.ParseMAC(told.MAC)
	if err != nil || len(mac) != 6 {
		return nil, fmt.Errorf("mac %q is not an Ethernet address", told.MAC)
	}
	if len(told.Addresses) == 0 {
		return nil, errors.New("addresses is empty")
	}
	for _, address := range told.Addresses {
		if !within(address, subnets) {
			return nil, fmt.Errorf("addresses has %v, which is not in the node's pod subnets %v", address, subnets)
		}
	}
	for _, gateway := range told.Gateways {
		if !gateway.IsValid() || gateway.IsUnspecified() {
			return nil, fmt.Errorf("gateways has %v, which is no address of a router", gateway)
		}
	}
	return &Network{MAC: mac, Addresses: told.Addresses, Gateways: told.Gateways}, nil
}

func within(address netip.Prefix, subnets []netip.Prefix) bool {
	for _, subnet := range subnets {
		if subnet.Masked() == address.Masked() {
			return true
		}
	}
	return false
}

// HostPorts are the pods that the node's host must be asked for.
func (p *Watcher) HostPorts(subnets []netip.Prefix) []hostservice.Pod {
	var list []hostservice.Pod
	for _, object := range p.Informer.GetStore().List() {
		pod := object.(*corev1.Pod)
		if len(pod.Spec.Containers) == 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		network, err := p.LookUp(cni.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}, subnets)
		if err != nil {
			continue // it has no address yet, or the host's
		}
		one := hostservice.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Created: pod.CreationTimestamp.Time,
			Addresses: contract.Addrs(network.Addresses)}
		for _, port := range pod.Spec.Containers[0].Ports {
			at, ok := contract.HostIP(port.HostIP)
			if !ok {
				continue
			}
			one.Ports = append(one.Ports, hostservice.PodPort{
				HostIP: at, HostPort: uint16(port.HostPort), Port: uint16(port.ContainerPort),
				Protocol: strings.ToLower(string(port.Protocol)),
			})
		}
		list = append(list, one)
	}
	return list
}

// onlyHostPorts is one container with a pod's host ports; none if there are none.
func onlyHostPorts(pod *corev1.Pod) []corev1.Container {
	ports, _ := outside.HostPorts(pod)
	if len(ports) == 0 {
		return nil
	}
	return []corev1.Container{{Ports: ports}}
}
