//go:build linux

package chassis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/httpserver"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/tunnel"
)

const userAgent = "weft-chassis"

// Run holds its share of the nodes that have no ovn-controller of their own, until ctx is done. Then
// it leaves them to the other hosts and returns nil. An error means that waiting would not help.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	access, err := accessBy(config.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	beats, err := kubernetes.NewForConfig(access) // a burst of other requests must not hold up a renewal
	if err != nil {
		return err
	}
	return run(ctx, config, client, beats, func(h *host) { h.metrics.registry.MustRegister(h.certificates(access)) })
}

// accessBy says how the API server is reached.
func accessBy(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = userAgent
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS, config.Burst = 100, 300 // a dead host's nodes are to be taken at once: three requests each
	return config, nil
}

// run is Run with its clients; began is told the host once there is one.
func run(ctx context.Context, config Config, client, beats kubernetes.Interface, began func(*host)) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // what must last until all is given back
	defer end()
	credentials, err := config.credentials(life, client)
	if err != nil {
		return err
	}
	instance := newInstance(config.Identity)
	dir, predecessor, err := openRunDir(ctx, config.RunDir, instance)
	if err != nil {
		return err
	}
	h := newHost(config, client, credentials, dir)
	defer h.spawner.close()
	h.metrics.register(h)
	serve, err := httpserver.Listen(life, config.MetricsAddress, h.probes().Handler())
	if err != nil {
		return errors.Join(err, dir.close())
	}
	served := make(chan error, 1)
	go func() { served <- serve() }()
	broadcaster := record.NewBroadcaster(record.WithContext(life))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	h.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: userAgent,
		Host: config.Identity})
	beat := &heartbeat{
		leases: beats.CoordinationV1().Leases(config.LeaseNamespace), namespace: config.LeaseNamespace,
		identity: config.Identity, zone: config.Zone,
		instance: instance, predecessor: predecessor, duration: config.LeaseDuration,
		terms: h.terms, sightings: h.sightings, log: h.log, renewed: h.changed,
		unreachable: h.unreachableNodes, leaving: h.leaving.Load, hurry: h.hurry,
	}
	var parts sync.WaitGroup
	synced, err := h.watch(life, &parts, client)
	if err != nil {
		return errors.Join(err, dir.close())
	}
	began(h)
	h.log.Info("chassis host started", "run-dir", config.RunDir, "lease-duration", config.LeaseDuration, "zone",
		config.Zone, "instance", instance, "ovn-controller-memory", config.controllerMemory())
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		beats, stop := context.WithCancel(life)
		beating := make(chan struct{})
		go func() {
			defer close(beating)
			beat.run(beats)
		}()
		h.run(ctx)
		stop()
		<-beating
	}
	h.terms.End()
	h.waitMembers()
	farewell, cancel := context.WithTimeout(life, h.terms.Limit())
	defer cancel()
	err = errors.Join(beat.resign(farewell), dir.close())
	end()
	parts.Wait()
	return errors.Join(err, <-served)
}

func (c Config) credentials(ctx context.Context, client kubernetes.Interface) (tunnel.Credentials, error) {
	if c.Secret == "" {
		return tunnel.Files(c.CA, c.Certificate, c.PrivateKey), nil
	}
	namespace, name, _ := strings.Cut(c.Secret, "/")
	return tunnel.Secret(ctx, client, namespace, name)
}

// watch keeps Nodes and Leases in step with the API server.
func (h *host) watch(ctx context.Context, parts *sync.WaitGroup, client kubernetes.Interface) ([]cache.InformerSynced,
	error) {
	nodes := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(keepFacts)).Core().V1().Nodes().Informer()
	h.nodes = nodes.GetStore()
	onNode, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { h.changed() },
		UpdateFunc: func(before, after any) { // kubelet renews its status all the time
			if !saysTheSame(before, after) {
				h.changed()
			}
		},
		DeleteFunc: func(any) { h.changed() },
	})
	if err != nil {
		return nil, err
	}
	leases := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(h.config.LeaseNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = contract.ChassisLeaseLabel
		})).Coordination().V1().Leases().Informer()
	note := func(object any) {
		if lease, ok := object.(*coordinationv1.Lease); ok && lease.Labels[contract.ChassisLeaseLabel] != "" {
			h.sightings.note(lease)
			h.changed()
		}
	}
	onLease, err := leases.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, object any) { note(object) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if lease, ok := object.(*coordinationv1.Lease); ok {
				h.sightings.gone(lease.Name, lease)
				h.changed()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	parts.Go(func() { nodes.RunWithContext(ctx) })
	parts.Go(func() { leases.RunWithContext(ctx) })
	return []cache.InformerSynced{onNode.HasSynced, onLease.HasSynced}, nil
}

// waitMembers returns when nothing of any member is left.
func (h *host) waitMembers() {
	h.mu.Lock()
	var last []*member
	for _, m := range h.members {
		last = append(last, m)
	}
	h.mu.Unlock()
	for _, m := range last {
		<-m.ended
	}
}

// report writes an Event on a Node.
func (h *host) report(n node, reason *reasons.Event, message string) {
	h.recorder.Event(n.reference(), reason.Type(), reason.Name, message)
}

func (n node) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.name, UID: n.uid}
}

// probes say whether the host's loop runs, and whether it may hold nodes; with the state of each that it holds.
func (h *host) probes() httpserver.Probes {
	return httpserver.Probes{
		Metrics: h.metrics.registry, Profiles: h.config.Profiling,
		Alive: func() error {
			if at := h.looked.Load(); at != 0 && time.Since(time.Unix(0, at)) > 10*h.config.LeaseDuration {
				return errors.New("the host's loop stands still")
			}
			return nil
		},
		Ready: func() (detail string, err error) {
			held := h.held()
			for _, name := range sortedKeys(held) {
				now, more := held[name].status.state()
				detail += "\n" + strings.TrimSpace(name+" "+string(now)+" "+more)
			}
			return detail, h.ready()
		},
	}
}

// ready says why the host can hold no node.
func (h *host) ready() error {
	if h.terms.Current() == nil {
		return errors.New("this host's Lease is not renewed: it holds no node; see its log, and whether the API " +
			"server answers")
	}
	set, err := h.credentials()
	if err != nil {
		return fmt.Errorf("the certificate that agents are shown cannot be read: %w", err)
	}
	if end := set.Own.Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("the certificate that agents are shown expired on %s: no agent takes it; renew it",
			end.UTC().Format(time.DateOnly))
	}
	return nil
}

// certificateExpiry is for the metric.
func (h *host) certificateExpiry() float64 {
	set, err := h.credentials()
	if err != nil {
		return 0
	}
	return float64(set.Own.Leaf.NotAfter.Unix())
}
