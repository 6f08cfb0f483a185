package hostservice

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// slice is an EndpointSlice cut down to endpoints that serve.
type slice struct {
	metav1.ObjectMeta
	ipv6      bool
	ports     []slicePort
	endpoints []endpoint
}

type slicePort struct {
	name     string
	protocol string
	port     uint16
}

type endpoint struct {
	addr netip.Addr
	node string // "": on none
	// ready is false of one that still serves while it terminates.
	ready bool
}

// trimSlice is the informers' transform.
func trimSlice(object any) (any, error) {
	o, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	s := &slice{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
		ipv6: o.AddressType == discoveryv1.AddressTypeIPv6}
	for _, p := range o.Ports {
		if p.Port == nil {
			continue
		}
		port := slicePort{protocol: tcp, port: uint16(*p.Port)}
		if p.Name != nil {
			port.name = *p.Name
		}
		if p.Protocol != nil {
			port.protocol = protocolOf(*p.Protocol)
		}
		s.ports = append(s.ports, port)
	}
	for _, e := range o.Endpoints {
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
		serves := e.Conditions.Serving != nil && *e.Conditions.Serving && terminating
		if len(e.Addresses) == 0 || !ready && !serves {
			continue
		}
		for _, addr := range parseAddrs(e.Addresses[:1]) {
			one := endpoint{addr: addr, ready: ready}
			if e.NodeName != nil {
				one.node = *e.NodeName
			}
			s.endpoints = append(s.endpoints, one)
		}
	}
	return s, nil
}

// countReady is the number of a node's ready endpoints. A pod of a dual-stack Service is in a slice of each
// family, and counts once. One that still serves while it terminates does not: a load balancer outside
// shall look for another node in time.
func countReady(slices []*slice, node string) int {
	families := [2]map[netip.Addr]struct{}{{}, {}}
	for _, s := range slices {
		family := families[0]
		if s.ipv6 {
			family = families[1]
		}
		for _, e := range s.endpoints {
			if e.ready && e.node == node {
				family[e.addr] = struct{}{}
			}
		}
	}
	return max(len(families[0]), len(families[1]))
}

// served is an endpoint at the port that a Service's port stands for.
type served struct {
	at   netip.AddrPort
	node string
}

// serving are the endpoints of a Service's port, sorted: those that are ready or, if there are none, those
// that terminate.
func serving(all []*slice, port servicePort, ipv4 bool) []served {
	var ready, leaving []served
	for _, s := range all {
		for _, p := range s.ports {
			if s.ipv6 == ipv4 || p.name != port.name || p.protocol != port.protocol {
				continue
			}
			for _, e := range s.endpoints {
				one := served{netip.AddrPortFrom(e.addr, p.port), e.node}
				if e.ready {
					ready = append(ready, one)
				} else {
					leaving = append(leaving, one)
				}
			}
		}
	}
	if len(ready) == 0 {
		ready = leaving
	}
	slices.SortFunc(ready, func(a, b served) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.node, b.node)
	})
	return slices.CompactFunc(ready, func(a, b served) bool { return a.at == b.at })
}

// follower knows the EndpointSlices of one Service.
type follower struct {
	informer cache.SharedIndexInformer
	synced   cache.InformerSynced
	stop     context.CancelFunc
	runs     sync.WaitGroup
}

// follow begins to watch the slices of a Service ("namespace/name"); changed is called for each that changes.
func follow(ctx context.Context, client kubernetes.Interface, key string, changed func()) (*follower, error) {
	namespace, name, _ := strings.Cut(key, "/")
	informer := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = labels.Set{discoveryv1.LabelServiceName: name}.String()
		}),
		informers.WithTransform(trimSlice),
	).Discovery().V1().EndpointSlices().Informer()
	if err := informer.SetWatchErrorHandlerWithContext(forbidden("endpointslices")); err != nil {
		return nil, err
	}
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return nil, err
	}
	f := &follower{informer: informer, synced: handle.HasSynced}
	ctx, f.stop = context.WithCancel(ctx)
	f.runs.Go(func() { informer.RunWithContext(ctx) })
	f.runs.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), f.synced) {
			changed() // a Service without slices has no other change
		}
	})
	return f, nil
}

// slices are the Service's; nil while they are not known.
func (f *follower) slices() []*slice {
	if !f.synced() {
		return nil
	}
	list := []*slice{}
	for _, object := range f.informer.GetStore().List() {
		list = append(list, object.(*slice))
	}
	return list
}

func (f *follower) close() {
	f.stop()
	f.runs.Wait()
}

// followers are those that run, by "namespace/name" of their Services.
type followers struct {
	start func(ctx context.Context, key string) (*follower, error)
	open  map[string]*follower
}

// apply starts and ends followers until they are those wanted. Why one does not start is the fault of no Service.
func (f *followers) apply(ctx context.Context, wanted map[string]struct{}) error {
	for key, one := range f.open {
		if _, keep := wanted[key]; !keep {
			one.close()
			delete(f.open, key)
		}
	}
	for key := range wanted {
		if f.open[key] != nil {
			continue
		}
		one, err := f.start(ctx, key)
		if err != nil {
			return err
		}
		f.open[key] = one
	}
	return nil
}

func (f *followers) slices() map[string][]*slice {
	all := map[string][]*slice{}
	for key, one := range f.open {
		all[key] = one.slices()
	}
	return all
}

func (f *followers) closeAll() { _ = f.apply(context.Background(), nil) } // it starts none
