package domains

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/signal"
)

// Config is what a [Watcher] needs.
type Config struct {
	Client kubernetes.Interface
	// Own is for kinds that Kubernetes does not have itself.
	Own dynamic.Interface
	// Node is the Node's name.
	Node string
	// Services are the cluster's DNS Services, each NAMESPACE/NAME.
	Services []string
	// NodeUID gives the Node's UID, "" while it is not known.
	NodeUID func() string
	// PodDevice gives the host's end of a pod's interface.
	PodDevice func(Pod) (device string, attached bool)
	// HostDevices gives the devices by which answers of the host's own address leave: none if the address
	// is not the host's. On each of them the host's own stack sends, and nobody else.
	HostDevices func(netip.Addr) []string
	// Open captures the frames of a source. Each Read gives one.
	Open func(Source) (io.ReadCloser, error)
}

// Source is where a DNS server's answers come by.
type Source struct {
	Device string
	// Outgoing: they are frames that the host sends by the device; else those that come in by it.
	Outgoing bool
	// Ports are the server's.
	Ports []uint16
}

// place is a source and the server's address, comparable.
type place struct {
	device   string
	outgoing bool
	addr     netip.Addr
	ports    string
}

// retryTime is how soon a capture is tried again that could not be opened or has ended.
const retryTime = time.Second

// Watcher watches the DNS servers on a node, and reports what they say about wanted names.
type Watcher struct {
	config   Config
	book     *book
	reporter *reporter
	metrics  *metrics
	servers  []cache.SharedIndexInformer
	policies []cache.SharedIndexInformer
	started  sync.Once // policies and reports, once there is a server
	wanted   signal.Signal
	running  sync.WaitGroup

	captures map[place]io.Closer
	told     map[place]bool // that it cannot be opened

	mu    sync.Mutex
	ended []ending
}

// ending is a capture that has ended by itself or was closed.
type ending struct {
	place   place
	capture io.Closer
}

// New makes a Watcher. It does nothing until [Watcher.Run].
func New(config Config) (*Watcher, error) {
	w := &Watcher{config: config, book: newBook(), wanted: signal.New(), captures: map[place]io.Closer{},
		told: map[place]bool{}}
	w.metrics = newMetrics(w.book)
	w.reporter = newReporter(config, w.book, w.metrics)
	touch := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.Enqueue() },
		UpdateFunc: func(any, any) { w.Enqueue() },
		DeleteFunc: func(any) { w.Enqueue() },
	}
	for _, service := range config.Services {
		w.servers = append(w.servers, newServers(config.Client, service, config.Node))
	}
	for _, kind := range policyResources {
		informer, err := newPolicies(config.Own, kind)
		if err != nil {
			return nil, err
		}
		w.policies = append(w.policies, informer)
	}
	for _, informer := range slices.Concat(w.servers, w.policies) {
		if _, err := informer.AddEventHandler(touch); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Enqueue says that pods' or the host's devices may be others.
func (w *Watcher) Enqueue() { w.wanted.Set() }

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.running.Wait()
	defer cancel()
	for _, informer := range w.servers {
		w.running.Go(func() { informer.RunWithContext(ctx) })
	}
	defer w.closeAll()
	for {
		var retry <-chan time.Time
		if w.reconcile(ctx) {
			retry = time.After(retryTime)
		}
		select {
		case <-w.wanted:
		case <-retry:
		case <-ctx.Done():
			return nil
		}
	}
}

// reconcile has captures follow servers, devices and policies. It says whether something is to be tried again.
func (w *Watcher) reconcile(ctx context.Context) (again bool) {
	sources := w.sources()
	if len(sources) > 0 {
		w.started.Do(func() {
			for _, informer := range w.policies {
				w.running.Go(func() { informer.RunWithContext(ctx) })
			}
			w.running.Go(func() { w.reporter.run(ctx) })
		})
	}
	names := w.names()
	w.book.want(names)
	if len(names) == 0 {
		clear(sources)
	}
	for _, e := range w.drainEnded() {
		if w.captures[e.place] == e.capture {
			delete(w.captures, e.place)
			delete(sources, e.place) // later: its device may be going
			again = true
		}
	}
	for p, capture := range w.captures {
		if _, stays := sources[p]; !stays {
			_ = capture.Close() // its reader ends, and says so
			delete(w.captures, p)
		}
	}
	for p, source := range sources {
		if w.captures[p] == nil && !w.open(ctx, p, source) {
			again = true
		}
	}
	return again
}

func (w *Watcher) drainEnded() []ending {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := w.ended
	w.ended = nil
	return ended
}

// names are all that policies want.
func (w *Watcher) names() map[string]struct{} {
	names := map[string]struct{}{}
	for _, informer := range w.policies {
		for _, object := range informer.GetStore().List() {
			for _, name := range object.(*policy).names {
				names[name] = struct{}{}
			}
		}
	}
	return names
}

// sources are where the node's DNS servers answer.
func (w *Watcher) sources() map[place]Source {
	sources := map[place]Source{}
	add := func(s server, device string, outgoing bool) {
		p := place{device, outgoing, s.addr, strings.Trim(fmt.Sprint(s.ports), "[]")}
		sources[p] = Source{Device: device, Outgoing: outgoing, Ports: s.ports}
	}
	for _, informer := range w.servers {
		for _, object := range informer.GetStore().List() {
			for _, s := range object.(*slice).servers {
				if device, attached := w.config.PodDevice(s.pod); attached {
					add(s, device, false)
					continue
				}
				for _, device := range w.config.HostDevices(s.addr) {
					add(s, device, true)
				}
			}
		}
	}
	return sources
}

// open begins a capture.
func (w *Watcher) open(ctx context.Context, p place, source Source) bool {
	capture, err := w.config.Open(source)
	if err != nil {
		if !w.told[p] {
			slog.WarnContext(ctx, "the answers of a DNS server are not seen; domain names in policies may lack addresses "+
				"until they are", "server", p.addr, "error", err)
		}
		w.told[p] = true
		return false
	}
	delete(w.told, p)
	w.captures[p] = capture
	slog.InfoContext(ctx, "the answers of a DNS server are watched for the domain names in policies", "server", p.addr,
		"device", source.Device)
	w.running.Go(func() {
		w.read(p.addr, source.Ports, capture)
		w.mu.Lock()
		w.ended = append(w.ended, ending{p, capture})
		w.mu.Unlock()
		_ = capture.Close() // it may be closed already
		w.Enqueue()
	})
	return true
}

func (w *Watcher) closeAll() {
	for _, capture := range w.captures {
		_ = capture.Close() // its reader ends
	}
}

// largestFrame is that of a segment that the host's stack has not cut yet.
const largestFrame = 1 << 17

// read takes in what a server says, until there is nothing to be read any more.
func (w *Watcher) read(server netip.Addr, ports []uint16, capture io.Reader) {
	frame, connections := make([]byte, largestFrame), newStreams()
	message := func(text []byte, cut bool) {
		if a, ok := parseAnswer(text, w.book.wants, cut); ok {
			w.metrics.answers.Inc()
			w.book.learn(a, time.Now())
		}
	}
	for {
		n, err := capture.Read(frame)
		if err != nil {
			return
		}
		p, ok := parseFrame(frame[:n])
		if !ok || p.src.Addr() != server || !slices.Contains(ports, p.src.Port()) {
			continue
		}
		if p.protocol == protocolUDP {
			message(p.payload, p.cut)
		} else {
			connections.read(p, func(text []byte) { message(text, false) })
		}
	}
}
