package hostservice

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/hostservice/proxy"
)

// Config is what a [Watcher] needs.
type Config struct {
	Client kubernetes.Interface
	// Node is the Node's name.
	Node string
	// Report writes a warning Event.
	Report func(object *corev1.ObjectReference, reason *reasons.Event, message string)
	// Sound says whether the node can serve anything, for healthCheckNodePort.
	Sound func() bool
	// DaemonsFile is where it is kept over a boot who listens on the host; empty: nowhere.
	DaemonsFile string
}

// retryTime is how soon a socket is tried again that could not be opened.
const retryTime = 5 * time.Second

// debounce keeps a flood of changes from becoming a flood of plans.
const debounce = 10 * time.Millisecond

// Watcher follows Services and does the host's side of them.
type Watcher struct {
	config   Config
	services cache.SharedIndexInformer
	synced   cache.InformerSynced // outside has all Services that there were at the start
	nodes    cache.SharedIndexInformer
	watches  sync.WaitGroup
	begin    sync.Once // the watch of nodes, once somebody needs it
	slices   cache.SharedIndexInformer
	servers  cache.SharedIndexInformer // slices of the API server's Service
	follow   sync.Once                 // the watch of slices, likewise
	serve    sync.Once                 // the watch of the API server's, likewise
	sockets  *proxy.Sockets
	checks   *checks
	told     map[problem]struct{}
	busy     listeners.Set // where programs of the host's listen, of what was tried
	daemons  *listeners.Daemons

	wanted signal.Signal // the plan may be another one

	mu      sync.Mutex
	outside map[string]*service // those with something outside, by namespace/name
	pods    []Pod
	host    Host
	toldOf  struct{ pods, host bool } // once
	plan    plan
	local   *localities
	facts   contract.Listeners // what the cluster is told of the host's daemons
	looked  bool               // it is known who they are
	changed chan struct{}      // closed and renewed when what the watcher says has changed
}

// New makes a Watcher. It does nothing until [Watcher.Run].
func New(config Config) (*Watcher, error) {
	w := &Watcher{config: config, sockets: proxy.New(), told: map[problem]struct{}{}, wanted: signal.New(),
		daemons: listeners.NewDaemons(config.DaemonsFile, listeners.Period), outside: map[string]*service{},
		local: newLocalities(), changed: make(chan struct{})}
	w.checks = &checks{open: map[uint16]*checkServer{}, start: func(ctx context.Context, c healthCheck) (*checkServer,
		error) {
		// Of these no more is left to a daemon than what it had before the agent began: kube-proxy's go over to the agent at
		// once.
		if w.daemons.Awaits(tcp, c.port) {
			return nil, listeners.ErrDaemon
		}
		return startCheck(ctx, c, func() []*slice { return w.slicesOf(c.owner.Namespace + "/" + c.owner.Name) }, config.Node,
			config.Sound)
	}}
	factory := informers.NewSharedInformerFactoryWithOptions(config.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = "!" + contract.HeadlessLabel + ",!" + contract.ProxyNameLabel
		}),
		informers.WithTransform(trimService))
	w.services = factory.Core().V1().Services().Informer()
	w.nodes = informers.NewSharedInformerFactoryWithOptions(config.Client, 0,
		informers.WithTransform(trimNode)).Core().V1().Nodes().Informer()
	var err error
	if w.slices, err = newSlices(config.Client, metav1.NamespaceAll, discoveryv1.LabelServiceName); err != nil {
		return nil, err
	}
	if w.servers, err = newSlices(config.Client, metav1.NamespaceDefault, discoveryv1.LabelServiceName+"="+
		apiServer); err != nil {
		return nil, err
	}
	for what, informer := range map[string]cache.SharedIndexInformer{"services": w.services, "nodes": w.nodes} {
		if err := informer.SetWatchErrorHandlerWithContext(forbidden(what)); err != nil {
			return nil, err
		}
	}
	handle, err := w.services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.serviceChanged(o.(*service)) },
		UpdateFunc: func(_, o any) { w.serviceChanged(o.(*service)) },
		DeleteFunc: w.serviceDeleted,
	})
	if err != nil {
		return nil, err
	}
	w.synced = handle.HasSynced
	if _, err := w.slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.sliceChanged, UpdateFunc: func(before, now any) { w.sliceChanged(before); w.sliceChanged(now) },
		DeleteFunc: w.sliceChanged,
	}); err != nil {
		return nil, err
	}
	enqueue := func(any) { w.enqueue() }
	if _, err := w.servers.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, _ any) {
		w.enqueue()
	}, DeleteFunc: enqueue}); err != nil {
		return nil, err
	}
	_, err = w.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, now any) {
			if !before.(*node).same(now.(*node)) {
				w.enqueue()
			}
		},
		DeleteFunc: enqueue,
	})
	return w, err
}

// forbidden says in the log what a watch needs that may not be.
func forbidden(what string) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			slog.WarnContext(ctx, "the agent may not watch "+what+": until its user may list and watch them, Services are not "+
				"served on the host and from outside", "error", err)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// Run serves until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.watches.Wait()
	w.watches.Go(func() { w.services.RunWithContext(ctx) })
	defer w.checks.closeAll()
	defer w.sockets.Close()
	w.daemons.Load()
	if !cache.WaitForCacheSync(ctx.Done(), w.synced) {
		return nil
	}
	w.daemons.Scan(w.has)
	for {
		var retry <-chan time.Time
		if w.apply(ctx) {
			retry = time.After(retryTime)
		}
		w.daemons.Await(ctx, w.has, w.wanted, retry)
		select {
		case <-time.After(debounce):
		case <-ctx.Done():
			return nil
		}
	}
}

// has says whether the Watcher itself listens somewhere.
func (w *Watcher) has(at listeners.Socket) bool {
	return w.sockets.IsOpen(at) ||
		at.Protocol == tcp && at.At.Addr().IsUnspecified() && w.checks.open[at.At.Port()] != nil
}

// SetHost says what the node is like now.
func (w *Watcher) SetHost(host Host) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.toldOf.host || !w.host.equal(host) {
		w.host, w.toldOf.host = host, true
		w.enqueue()
	}
}

// SetPods says which of the node's pods have host ports, in whatever order.
func (w *Watcher) SetPods(pods []Pod) {
	slices.SortFunc(pods, olderPod)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.toldOf.pods || !slices.EqualFunc(w.pods, pods, Pod.equal) {
		w.pods, w.toldOf.pods = pods, true
		w.enqueue()
	}
}

// Entries are what comes from outside for OVN, sorted. Known is false until Services, host and pods are: what
// is in force then stays.
func (w *Watcher) Entries() (entries []extbridge.Entry, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan.entries, w.plan.known
}

// Routes are the addresses that the host reaches by its management port, beside the cluster's ranges. While
// all is false there may be more than these.
func (w *Watcher) Routes() (addrs []netip.Addr, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan.routes, w.plan.known && !w.plan.partial
}

// Listeners are where daemons of the host listen, as the cluster is to be told of them: they change once a minute at
// most. Known is false until the host has been looked at: what the cluster was told before then stays.
func (w *Watcher) Listeners() (list contract.Listeners, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.facts, w.looked
}

// Changed is closed when Entries, Routes or Listeners have changed since the call.
func (w *Watcher) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// Collectors are the metrics.
func (w *Watcher) Collectors() []prometheus.Collector { return w.sockets.Collectors() }

func (w *Watcher) enqueue() { w.wanted.Set() }

func (w *Watcher) serviceChanged(now *service) {
	key := now.Namespace + "/" + now.Name
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.outside[key]
	switch {
	case !now.outside && before == nil, now.outside && before != nil && before.same(now):
		return
	case now.outside:
		w.outside[key] = now
	default:
		delete(w.outside, key)
	}
	w.enqueue()
}

func (w *Watcher) serviceDeleted(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	gone, ok := object.(*service)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := gone.Namespace + "/" + gone.Name; w.outside[key] != nil {
		delete(w.outside, key)
		w.enqueue()
	}
}

// apply works out the plan anew and follows it. It says whether something is to be tried again. Sockets come
// before entries: what a program of the host's listens at is not taken from it for a moment.
func (w *Watcher) apply(ctx context.Context) (again bool) {
	p := w.makePlan()
	if p.follows {
		w.follow.Do(func() { w.watch(ctx, w.slices) })
	}
	failed := w.sockets.Apply(ctx, p.sockets, w.daemons.InTheWay())
	if busy := busyOf(p.holders, failed); !maps.Equal(busy, w.busy) {
		w.busy = busy
		p = w.makePlan()
	}
	w.publish(p)
	if p.partial || p.remote {
		w.begin.Do(func() { w.watch(ctx, w.nodes) })
	}
	if p.wants {
		w.serve.Do(func() { w.watch(ctx, w.servers) })
	}
	unchecked := w.checks.apply(ctx, p.checks)
	problems := append(p.problems, listenProblems(p.holders, failed)...)
	for port, err := range unchecked {
		problems = append(problems, checkProblem(p.checks[port], err))
	}
	w.report(problems)
	return len(failed)+len(unchecked) > 0
}

// watch begins a watch, and looks again when it has all that there is.
func (w *Watcher) watch(ctx context.Context, informer cache.SharedIndexInformer) {
	w.watches.Go(func() { informer.RunWithContext(ctx) })
	w.watches.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			w.enqueue()
		}
	})
}

// slicesOf are a Service's; nil while they are not known.
func (w *Watcher) slicesOf(key string) []*slice {
	if !w.slices.HasSynced() {
		return nil
	}
	objects, _ := w.slices.GetIndexer().ByIndex(byService, key) // there is that index
	list := make([]*slice, len(objects))
	for i, object := range objects {
		list[i] = object.(*slice)
	}
	return list
}

// sliceChanged is for a Service whose endpoints matter, or for none.
func (w *Watcher) sliceChanged(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	changed, ok := object.(*slice)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.outside[changed.key()]; of != nil && of.follows() {
		w.enqueue()
	}
}

func (w *Watcher) makePlan() plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := state{pods: w.pods, host: w.host, node: w.config.Node, endpoints: map[string][]*slice{}, busy: w.busy,
		daemons: w.daemons.InTheWay(), localities: w.local}
	if w.nodes.HasSynced() {
		s.nodes, s.nodeHosts, s.internal = map[netip.Addr]struct{}{}, map[netip.Addr]struct{}{}, map[string][]netip.Addr{}
		s.listening = map[netip.Addr][]contract.Listeners{}
		for _, object := range w.nodes.GetStore().List() {
			s.know(object.(*node))
		}
	}
	if w.servers.HasSynced() {
		s.apiServers = map[netip.AddrPort]bool{}
		for _, object := range w.servers.GetStore().List() {
			s.serve(object.(*slice))
		}
	}
	for key, one := range w.outside {
		s.services = append(s.services, one)
		if one.follows() {
			s.endpoints[key] = w.slicesOf(key)
		}
	}
	slices.SortFunc(s.services, older)
	p := makePlan(s)
	p.follows = len(s.endpoints) > 0
	p.known = w.toldOf.host && w.toldOf.pods
	return p
}

// publish wakes who follows what the plan says.
func (w *Watcher) publish(p plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.plan
	w.plan = p
	news := false
	if w.looked || p.known {
		if list, known := w.daemons.Facts(w.host.Network.OwnPorts(), w.host.Addresses); known {
			news = !w.looked || !slices.Equal(w.facts, list)
			w.looked, w.facts = true, list
		}
	}
	if news || before.known != p.known || !slices.Equal(before.entries, p.entries) || !slices.Equal(before.routes,
		p.routes) || before.partial != p.partial {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// apiServer is the Service that Kubernetes keeps for its API server, in the namespace default.
const apiServer = "kubernetes"

// serve takes in where the API server is.
func (s *state) serve(of *slice) {
	for _, p := range of.ports {
		for _, e := range of.endpoints {
			s.apiServers[netip.AddrPortFrom(e.addr, p.port)] = true
		}
	}
}

// know takes in a node's addresses.
func (s *state) know(n *node) {
	s.internal[n.Name] = n.internal
	for _, addr := range n.addrs {
		s.nodes[addr] = struct{}{}
	}
	for _, addr := range n.hosts {
		s.nodeHosts[addr] = struct{}{}
	}
	for _, addr := range n.listening {
		s.listening[addr] = append(s.listening[addr], n.listeners)
	}
}

// report writes each problem's Event once for as long as it lasts.
func (w *Watcher) report(problems []problem) {
	lasting := map[problem]struct{}{}
	for _, p := range problems {
		lasting[p] = struct{}{}
		if _, known := w.told[p]; known {
			continue
		}
		w.config.Report(&corev1.ObjectReference{APIVersion: "v1", Kind: p.object.Kind, Namespace: p.object.Namespace,
			Name: p.object.Name, UID: p.object.UID}, p.reason,
			"Node "+w.config.Node+": "+p.message) // kubectl describe shows no Event's host
	}
	w.told = lasting
}

// node is a Node cut down to all addresses that are known of it.
type node struct {
	metav1.ObjectMeta
	addrs    []netip.Addr
	hosts    []netip.Addr // those of them that its host and its gateway have
	internal []netip.Addr // its InternalIPs
	// listeners are its host's daemons, listening the addresses that its host has, of a node that has listeners.
	listeners contract.Listeners
	listening []netip.Addr
}

func (n *node) same(o *node) bool {
	return slices.Equal(n.addrs, o.addrs) && slices.Equal(n.hosts, o.hosts) && slices.Equal(n.internal, o.internal) &&
		slices.Equal(n.listeners, o.listeners) && slices.Equal(n.listening, o.listening)
}

func trimNode(object any) (any, error) {
	o, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	n := &node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
	for _, address := range o.Status.Addresses {
		addrs := parseAddrs([]string{address.Address})
		n.addrs = append(n.addrs, addrs...)
		if address.Type == corev1.NodeInternalIP {
			n.internal = append(n.internal, addrs...)
		}
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			n.hosts = append(n.hosts, addrs...)
		}
	}
	// What the facts say is a help only: a node whose facts nobody can read has its other addresses.
	if facts, ok, err := contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation); ok &&
		err == nil {
		n.hosts = append(n.hosts, facts.Addresses...)
		if n.listeners = facts.Listeners[:min(len(facts.Listeners), contract.MostOfFacts)]; len(n.listeners) > 0 {
			n.listening = slices.Clone(n.hosts) // a router's own addresses, which follow, are not the host's
		}
		if facts.Gateway != nil {
			n.hosts = append(n.hosts, contract.Addrs(facts.Gateway.Addresses)...)
			n.addrs = append(n.addrs, facts.Gateway.NextHops...)
		}
	}
	n.addrs = append(n.addrs, n.hosts...)
	slices.SortFunc(n.addrs, netip.Addr.Compare)
	n.addrs = slices.Compact(n.addrs)
	return n, nil
}
