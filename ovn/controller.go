package ovn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/weftnet/weft/models/httpserver"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/election"
	"github.com/weftnet/weft/ovn/hosting"
	"github.com/weftnet/weft/ovn/latency"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/watch"
	"github.com/weftnet/weft/ovn/writeback"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// agent is how the controller signs its requests and Events.
const agent = "weft-controller"

// controller is what a running controller is made of. Standby and leader have all of it: a standby
// keeps its stores and its copy of the Northbound warm, and only does not write.
type controller struct {
	config   settings.Config
	settings *settings.Settings
	client   kubernetes.Interface
	own      dynamic.Interface // of weft's own API group
	annotate writeback.Write
	log      *slog.Logger

	queue     *watch.Queue
	informers *watch.Informers
	metrics   *metrics
	// northbounds are one of each zone, or one without a name.
	northbounds []northboundConfig

	// database is nil until the Northbound is connected; connected closes then.
	database  database
	connected chan struct{}
	patience  time.Duration // of a leader whose Northbound is away

	leader   atomic.Pointer[leader] // nil on a standby
	watchdog watchdog
}

// database is a connected Northbound.
type database interface {
	// Writer writes what a cluster comes to.
	Writer(*cluster) Northbound
	// Watch tells of owners whose rows another hand has changed, until ctx is done.
	Watch(ctx context.Context, changed func([]ovsdb.Owner)) error
	// Recall finds what earlier terms have decided. zone is the zone that a Node's label names.
	Recall(s *settings.Settings, zone func(node string) string) records.Records
	// Hosting and WatchHosting say which chassis host the ports of EgressIPs and nodes: see package hosting.
	Hosting() map[part.Event]string
	WatchHosting(ctx context.Context, known map[part.Event]string, moved func(what part.Event, chassis string))
	// Disabled are the features that its server's schema has no columns for.
	Disabled() []string
	// Connected says whether there is a connection now.
	Connected() bool
}

// dialer connects the Northbound, and gives what ends the connection.
type dialer func(context.Context) (database, func(), error)

// engine adds to the engine what its client knows, and whose it is.
type engine struct {
	*ovsdb.Engine
	identity string
}

// leaderKey is the key in external_ids of the row of NB_Global: the claim of the controller that leads, which is its
// identity and a value that no other claim has. The Northbound refuses a controller's transactions when its claim is
// not there.
const leaderKey = "weft.net/leader"

func (e engine) Claim(ctx context.Context, entitled func(context.Context) error) error {
	return e.Engine.Claim(ctx, ovsdb.Fence{Table: nb.NBGlobalTable, Key: leaderKey, Writer: e.identity,
		Entitled: entitled})
}

func (e engine) Writer(*cluster) Northbound { return e }

func (e engine) Connected() bool { return e.Client().Connected() }

func (e engine) Disabled() []string { return e.Client().Disabled() }

func (e engine) Hosting() map[part.Event]string { return hosting.Of(e.Client()) }

func (e engine) WatchHosting(ctx context.Context, known map[part.Event]string,
	moved func(what part.Event, chassis string)) {
	hosting.Watch(ctx, e.Client(), known, moved)
}

func (e engine) Recall(s *settings.Settings, _ func(string) string) records.Records {
	return e.Records(s)
}

// Records are what the Northbound holds of earlier terms.
func (e engine) Records(s *settings.Settings) records.Records {
	return records.Of(s, ovsdb.List[nb.LogicalSwitchPort](e.Client(), nil), ovsdb.List[nb.LogicalRouterPort](e.Client(),
		nil))
}

// Run runs a controller until ctx is done or it cannot go on. An API server or a Northbound that is
// away is waited for, at start and later.
func Run(ctx context.Context, config settings.Config) error {
	access, err := kubernetesAccess(config.Kubeconfig)
	if err != nil {
		return err
	}
	client, own, err := connectKubernetes(access)
	if err != nil {
		return fmt.Errorf("kubeconfig: %q: %w", config.Kubeconfig, err)
	}
	c, err := newController(config, client, own, writeback.Through(client))
	if err != nil {
		return err
	}
	c.metrics.registry.MustRegister(certificates.NewExpiry(append(
		certificates.OfKubeconfig(config.Kubeconfig, access.TLSClientConfig),
		certificates.Watched{Purpose: "ovn-certificate", File: config.Certificate},
		certificates.Watched{Purpose: "ovn-ca", File: config.CA})...))
	// Nothing is written before it is known that Kubernetes is new enough.
	return c.run(ctx, func(ctx context.Context) (database, func(), error) {
		if err := awaitKubernetes(ctx, client.Discovery().RESTClient(), c.log); err != nil {
			return nil, nil, err
		}
		return c.dial(ctx)
	})
}

func newController(config settings.Config, client kubernetes.Interface, own dynamic.Interface,
	annotate writeback.Write) (*controller, error) {
	s, err := config.Settings()
	if err != nil {
		return nil, err
	}
	if config.Identity == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("identity: is empty, and the host name is unknown: %w; set it", err)
		}
		config.Identity = name + "_" + rand.String(6)
	}
	q := watch.NewQueue()
	c := &controller{
		config: config, settings: s, client: client, own: own, annotate: annotate, log: slog.Default(),
		queue: q, informers: watch.NewInformers(client, own, q, newCluster(s).kinds()), metrics: newMetrics(q),
		connected: make(chan struct{}), patience: patience,
	}
	c.metrics.registry.MustRegister(addresses{&c.leader})
	c.northbounds = c.configured()
	return c, nil
}

// northboundConfig is a Northbound, and what is measured of it.
type northboundConfig struct {
	settings.Zone
	registry prometheus.Registerer
	latency  *latency.Meter
}

// logger names the zone.
func (n northboundConfig) logger(log *slog.Logger) *slog.Logger {
	if n.Name == "" {
		return log
	}
	return log.With("zone", n.Name)
}

// configured are the Northbounds that the controller has. With zones, what is measured of each has the label zone.
func (c *controller) configured() (list []northboundConfig) {
	zones := c.settings.Zones
	if len(zones) == 0 {
		zones = []settings.Zone{{Northbound: c.config.Northbound}}
	}
	for _, z := range zones {
		n := northboundConfig{Zone: z, registry: c.metrics.registry}
		if z.Name != "" {
			n.registry = prometheus.WrapRegistererWith(prometheus.Labels{"zone": z.Name}, n.registry)
		}
		n.latency = latency.New(c.config.LatencyInterval, n.logger(c.log))
		n.registry.MustRegister(n.latency.Metrics()...)
		list = append(list, n)
	}
	return list
}

// kubernetesAccess says how the API server is reached. There is no limit of its own on requests: the API server has
// better ones (priority and fairness).
func kubernetesAccess(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %q: %w; name a kubeconfig file, or leave it empty within a pod", kubeconfig, err)
	}
	config.UserAgent = agent
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}

// connectKubernetes makes the clients; it does not wait for the API server.
func connectKubernetes(access *rest.Config) (kubernetes.Interface, dynamic.Interface, error) {
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, nil, err
	}
	own, err := dynamic.NewForConfig(access)
	return client, own, err
}

// probe is the silence of the Northbound after which it is asked for a sign of life; a server that is lost is
// left after twice that, while another controller waits for the Lease. A large one has more time ([ovsdb.Config]).
const probe = 3 * time.Second

// northbound says how a Northbound is reached.
func (c *controller) northbound(n northboundConfig) (ovsdb.Config, error) {
	model, err := nb.FullDatabaseModel()
	if err != nil {
		return ovsdb.Config{}, fmt.Errorf("model of the Northbound: %w", err)
	}
	config := ovsdb.Config{Endpoints: strings.Join(n.Northbound, ","), Model: model, Probe: probe,
		Logger: n.logger(c.log)}
	if c.config.CA != "" {
		config.TLS = &ovsdb.TLS{CertFile: c.config.Certificate, KeyFile: c.config.PrivateKey, CAFile: c.config.CA}
	}
	return config, nil
}

// measure measures how long each Northbound takes to its nodes, until ctx is done.
func (c *controller) measure(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, n := range c.northbounds {
		all.Go(func() {
			config, err := c.northbound(n)
			if err == nil {
				err = n.latency.Run(ctx, config)
			}
			if err != nil && ctx.Err() == nil {
				n.logger(c.log).Error("the latency of OVN is not measured", "error", err)
			}
		})
	}
}

// returning are tables of which ovn-northd must not meet a row's deletion and its return at once. It takes such a row
// for one that came and went (25.03, northd/en-lb-data.c): it ends by an assertion, or does not make the new flows.
var returning = []string{nb.LoadBalancerTable, nb.LoadBalancerGroupTable}

// dial connects the Northbound, or those of all zones.
func (c *controller) dial(ctx context.Context) (database, func(), error) {
	if len(c.settings.Zones) == 0 {
		return c.dialOne(ctx, c.northbounds[0])
	}
	return dialZones(ctx, c.northbounds, zonePatience, c.metrics, c.log, c.dialOne)
}

func (c *controller) dialOne(ctx context.Context, n northboundConfig) (database, func(), error) {
	config, err := c.northbound(n)
	if err != nil {
		return nil, nil, err
	}
	numbers := config
	config.Tables, config.Metrics = northbound.Tables, n.registry
	client, err := ovsdb.Connect(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("ovn-northbound: %w", err)
	}
	e := ovsdb.NewEngine(client)
	e.HoldBack(func(ctx context.Context) error { return latency.CatchUp(ctx, numbers) }, returning...)
	return engine{e, c.config.Identity}, client.Close, nil
}

// run starts all parts at once: none of them needs another one to begin.
func (c *controller) run(ctx context.Context, dial dialer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	serve, err := httpserver.Listen(ctx, c.config.MetricsAddress, c.probes().Handler())
	if err != nil {
		return err
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := serve(); err != nil {
			stop(err)
		}
	})
	closeDatabase := func() {}
	parts.Go(func() {
		database, closer, err := dial(ctx)
		if err != nil {
			stop(err)
			return
		}
		c.database, closeDatabase = database, closer
		close(c.connected)
	})
	c.informers.Start(ctx)
	if err := election.Run(ctx, election.Config{Leases: c.client.CoordinationV1(), Namespace: c.config.LeaseNamespace,
		Name: c.config.LeaseName, Identity: c.config.Identity, Duration: c.config.LeaseDuration, Fit: c.fit, Unfit: c.unfit,
		Log: c.log}, c.lead); err != nil {
		stop(err)
	}
	stop(nil)
	parts.Wait()
	closeDatabase()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lead is a leader's work: it waits for what it needs, and then keeps the Northbound in step until ctx
// is done, or the Northbound has been away for so long that another controller may reach it.
func (c *controller) lead(ctx context.Context, entitled func(context.Context) error) {
	ctx, resign := context.WithCancel(ctx)
	defer resign()
	go func() {
		if cutOff(ctx, c.patience, c.database.Connected) {
			c.log.Error("gives the Lease back: the Northbound has been away for too long, and another controller may reach it",
				"northbound", c.config.Northbound, "seconds", c.patience.Seconds())
			resign()
		}
	}()
	c.metrics.leader.Set(1)
	defer c.metrics.leader.Set(0)
	defer c.metrics.inStep.Reset()
	if !c.await(ctx) {
		return
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(writeback.LastingEvents{
		EventSink: &typedcorev1.EventSinkImpl{Interface: c.client.CoreV1().Events("")}})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: agent})
	report := func(p objects.Problem) {
		c.metrics.problems.WithLabelValues(p.Reason).Inc()
		c.log.Warn(p.Message, telemetry.Object(p.Kind.String(), p.Object.Namespace, p.Object.Name), "reason", p.Reason)
		recorder.AnnotatedEventf(p.Reference(), p.Annotations(), corev1.EventTypeWarning, p.Reason, "%s", p.Message)
	}
	there := func(k objects.Key) bool {
		if _, node, _ := strings.Cut(k.Name, "/"); k.Kind == objects.PodNetworksKind { // Weft makes it, for a Node
			k = objects.Key{Kind: objects.NodeKind, Name: node}
		}
		return c.informers.Get(k) != nil
	}
	notes := writeback.New(c.annotate, there, writeback.Log(c.log, c.metrics.failed), report)
	chassis := c.database.Hosting()
	source := hosting.NewSource(c.informers, chassis)
	translation := newCluster(c.settings)
	l := &leader{
		cluster: translation, source: source, queue: c.queue,
		northbound: c.database.Writer(translation), entitled: entitled, disabled: c.database.Disabled,
		records: func(zone func(string) string) records.Records { return c.database.Recall(c.settings, zone) },
		ports: func() map[types.UID][]netip.Addr {
			return c.database.Recall(c.settings, func(string) string { return "" }).Pods
		},
		metrics: c.metrics, log: c.log, annotate: notes.Set, report: report, disputes: map[ovsdb.Owner]dispute{},
	}
	l.zones, _ = l.northbound.(zonal)
	var parts sync.WaitGroup
	parts.Go(func() { notes.Run(ctx) })
	parts.Go(func() { c.measure(ctx) })
	parts.Go(func() {
		c.database.WatchHosting(ctx, chassis, func(what part.Event, chassis string) {
			source.Moved(what, chassis)
			c.queue.Add(what, false)
		})
	})
	parts.Go(func() {
		if err := c.database.Watch(ctx, func(owners []ovsdb.Owner) { l.suspect(ctx, owners) }); err != nil &&
			ctx.Err() == nil {
			c.log.Error("watch for foreign changes in the Northbound", "error", err)
		}
	})
	if l.zones != nil {
		parts.Go(func() {
			watchReturns(ctx, l.zones, func() { c.queue.Add(part.Signal{What: zoneReturned}, false) })
		})
	}
	c.leader.Store(l)
	defer c.leader.Store(nil)
	l.run(ctx)
	parts.Wait()
}

// await waits for the first lists, and for the Northbound where the connection was lost meanwhile: what another leader
// has written since then is to be seen. False means that ctx is done.
func (c *controller) await(ctx context.Context) bool {
	for !c.informers.Synced() || !c.database.Connected() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
	return ctx.Err() == nil
}

// stuck is how long a batch may take, with a Northbound that answers, before something is broken.
const stuck = 5 * time.Minute

// watchdog remembers since when it has seen the same batch under way and the Northbound there.
type watchdog struct {
	mu    sync.Mutex
	batch int64
	since time.Time
}

// alive is false for a controller that only a restart can help. It is asked again and again. How long
// the Northbound was away does not count: the batch begins anew with the connection.
func (c *controller) alive() error {
	w := &c.watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := int64(0)
	if l := c.leader.Load(); l != nil && c.database.Connected() {
		batch = l.begun.Load()
	}
	if batch == 0 || batch != w.batch {
		w.batch, w.since = batch, time.Now()
		return nil
	}
	if busy := time.Since(w.since); busy > stuck {
		return fmt.Errorf("the same batch has been under way for %s", busy.Round(time.Second))
	}
	return nil
}

// ready holds for a standby, too: it could lead at once.
func (c *controller) ready() error {
	select {
	case <-c.connected:
	default:
		return fmt.Errorf("no connection yet to the Northbound at %s", strings.Join(c.config.Northbound, ","))
	}
	if !c.database.Connected() {
		return fmt.Errorf("the connection to the Northbound at %s is lost", strings.Join(c.config.Northbound, ","))
	}
	if !c.informers.Synced() {
		return errors.New("the API server's objects are not read yet")
	}
	return nil
}
