package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/httpserver"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/hits"
	"github.com/weftnet/weft/ovn/observe/connections"
	"github.com/weftnet/weft/ovn/observe/dump"
	"github.com/weftnet/weft/ovn/observe/topology"
	"github.com/weftnet/weft/ovn/ovntrace"
	"github.com/weftnet/weft/ovn/status"
	"github.com/weftnet/weft/ovn/trace"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// Bounds of a client that is slow, or no API server.
const (
	askTime    = 10 * time.Second // the handshake and the request
	answerTime = readTime + 10*time.Second
	closeTime  = 10 * time.Second
	maxHeader  = 1 << 16 // names of users' groups
	maxStreams = 100
)

var bounds = httpserver.Limits{Connections: httpserver.Endpoints.Connections, PerClient: httpserver.Endpoints.PerClient,
	Header: askTime, Request: askTime, Answer: answerTime, Idle: 2 * time.Minute}

// Agents open streams of nodes' agents. [hits.ErrNoTarget] is of an agent that knows no such stream.
type Agents struct {
	// Counters leads to what flows have counted.
	Counters hits.Dial
	// Metrics leads to the agent's metrics, in Prometheus' text format. The agent ends the stream after them.
	Metrics hits.Dial
	// Capture leads to packets: contract.CaptureRequest.
	Capture hits.Dial
	// Connections leads to what the datapath remembers of connections.
	Connections hits.Dial
	// Probe leads to who sends probes: contract.ProbeRequest.
	Probe hits.Dial
}

// Run serves until ctx is done.
func Run(ctx context.Context, c Config, config *rest.Config, agents Agents) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	d, err := newDoor(c, client, agents)
	if err != nil {
		return err
	}
	d.metrics.registry.MustRegister(certificates.NewExpiry(append(
		certificates.OfKubeconfig(c.Kubeconfig, config.TLSClientConfig),
		certificates.Watched{Purpose: "tunnel-certificate", File: c.Certificate},
		certificates.Watched{Purpose: "tunnel-ca", File: c.CA})...))
	return d.run(ctx)
}

// door is one of those that the API server may ask.
type door struct {
	config   Config
	client   kubernetes.Interface
	proxy    *frontProxy
	nodes    cache.SharedIndexInformer
	hits     *snapshots[*api.PolicyHitsList]
	status   *snapshots[*api.NetworkStatusList]
	versions *snapshots[*api.NetworkVersionList]
	topology *snapshots[*api.NetworkTopologyList]
	flows    *snapshots[*api.NetworkFlowsList]
	dumps    *dumps
	commands *commands
	captures *captures
	prober   *prober
	tracer   *trace.Tracer
	metrics  *metrics
	refused  sync.Map // why a node's agent is not asked, by name
	serving  atomic.Bool
	began    time.Time
}

func newDoor(c Config, client kubernetes.Interface, agents Agents) (*door, error) {
	proxy, err := newFrontProxy(client)
	if err != nil {
		return nil, err
	}
	d := &door{config: c, client: client, proxy: proxy, metrics: newMetrics(), began: time.Now(),
		nodes: informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()}
	if err := d.nodes.SetTransform(keepNode); err != nil {
		return nil, err
	}
	d.prepareAnswers(agents)
	return d, nil
}

// prepareAnswers says where each answer is read.
func (d *door) prepareAnswers(agents Agents) {
	northbound, southbound := ovsdb.Config{Endpoints: d.config.Northbound}, ovsdb.Config{Endpoints: d.config.Southbound}
	d.hits = &snapshots[*api.PolicyHitsList]{now: time.Now, fresh: hitsFresh,
		read: func(ctx context.Context) (*api.PolicyHitsList, error) {
			counts, err := hits.Read(ctx, hits.Config{Northbound: northbound, Southbound: southbound, Dial: agents.Counters},
				d.agents())
			if err == nil { // else nobody was asked
				d.metrics.unanswered.Set(float64(len(counts.Unanswered)))
			}
			return listOf(counts), err
		}}
	sources := &status.Sources{Door: d.config.Identity, DoorNamespace: Namespace, Northbound: northbound,
		Southbound: southbound, Kubernetes: d.client.CoreV1().RESTClient(), Nodes: d.watchedNodes,
		Certificates: d.config.certificates}
	d.status = &snapshots[*api.NetworkStatusList]{now: time.Now, fresh: statusFresh,
		read: func(ctx context.Context) (*api.NetworkStatusList, error) { return sources.Read(ctx), nil }}
	d.versions = &snapshots[*api.NetworkVersionList]{now: time.Now, fresh: versionFresh,
		read: func(ctx context.Context) (*api.NetworkVersionList, error) { return sources.Versions(ctx), nil }}
	layout := &topology.Sources{Northbound: northbound, Southbound: southbound, Nodes: d.watchedNodes}
	d.topology = &snapshots[*api.NetworkTopologyList]{now: time.Now, fresh: topologyFresh, read: layout.Read}
	talks := &connections.Sources{Agents: d.agents, Dial: agents.Connections, Nodes: d.watchedNodes,
		Topology: d.topology.get, Kubernetes: d.client}
	d.flows = &snapshots[*api.NetworkFlowsList]{now: time.Now, fresh: flowsFresh,
		read: func(ctx context.Context) (*api.NetworkFlowsList, error) { return talks.Read(ctx), nil }}
	d.dumps = newDumps(map[string]func(context.Context, *dump.Writer) error{
		api.NorthboundDump: func(ctx context.Context, w *dump.Writer) error {
			return dump.Database(ctx, northbound, status.Northbound, w)
		},
		api.SouthboundDump: func(ctx context.Context, w *dump.Writer) error {
			return dump.Database(ctx, southbound, status.Southbound, w)
		},
		api.AgentsDump: func(ctx context.Context, w *dump.Writer) error {
			return dump.Agents(ctx, d.agents(), agents.Metrics, w)
		},
	})
	d.commands = newCommands(map[string]string{api.NorthboundCommand: d.config.Northbound,
		api.SouthboundCommand: d.config.Southbound})
	d.captures = &captures{client: d.client, agents: agentDialer{agents.Capture, d.nodeNamed},
		limits: &limits{most: maxCaptures, mostOfUser: maxCapturesOfUser, lasting: "captures"}}
	d.prober = &prober{client: d.client, agents: agentDialer{agents.Probe, d.nodeNamed},
		limits: &limits{most: maxProbes, mostOfUser: maxProbesOfUser}}
	d.tracer = &trace.Tracer{Program: ovntrace.New(d.config.OVNTrace, d.config.Southbound, maxTraces),
		Northbound: northbound, Southbound: southbound, Kubernetes: d.client.CoreV1().RESTClient(), Nodes: d.watchedNodes}
}

func (d *door) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	serve, err := httpserver.Listen(ctx, d.config.MetricsAddress, d.probes().Handler())
	if err != nil {
		return err
	}
	group.Go(serve)
	if err := d.prepare(ctx); err != nil {
		return errors.Join(err, ctx.Err())
	}
	listener, err := net.Listen("tcp", d.config.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	files, kept := certificates.Files{Certificate: d.config.Certificate, Key: d.config.PrivateKey,
		Authorities: d.config.CA}, new(certificates.Kept)
	own := func() (*certificates.Set, error) { return kept.Read(files) }
	if _, err := own(); err != nil {
		listener.Close()
		return err
	}
	left := make(chan struct{})
	group.Go(func() error { return d.serve(ctx, listener, own, left) })
	here := &presence{client: d.client, identity: d.config.Identity, address: netip.MustParseAddrPort(d.config.Listen),
		renewal: renewal, silence: silence}
	group.Go(func() error {
		defer close(left)
		here.keep(ctx)
		return nil
	})
	slog.InfoContext(ctx, "the door is open", "listen", d.config.Listen, "identity", d.config.Identity)
	return group.Wait()
}

// prepare waits until the door knows the API server and the nodes.
func (d *door) prepare(ctx context.Context) error {
	for last := ""; ; {
		err := d.proxy.load(ctx)
		if err == nil {
			break
		}
		if err.Error() != last {
			slog.WarnContext(ctx, "the door stays closed until the API server's front proxy is known", "error", err)
			last = err.Error()
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
	go d.proxy.keep(ctx)
	go d.nodes.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), d.nodes.HasSynced)
	return nil
}

// serve ends when ctx is done and left is closed: as long as the API server is sent here, it is answered.
func (d *door) serve(ctx context.Context, listener net.Listener, own func() (*certificates.Set, error),
	left <-chan struct{}) error {
	server := httpserver.New(d.handler(), bounds)
	server.TLSConfig, server.MaxHeaderBytes = d.proxy.tlsConfig(own), maxHeader
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	server.ErrorLog = slog.NewLogLogger(slog.Default().Handler(), slog.LevelInfo) // strangers' handshakes
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		d.serving.Store(false)
		<-left
		last, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_ = server.Shutdown(last) // who is still there is cut off
	})
	d.serving.Store(true)
	err := server.ServeTLS(httpserver.Bound(server, listener, bounds), "", "")
	if errors.Is(err, http.ErrServerClosed) {
		<-closed
		return nil
	}
	stop()
	return err
}

// handler gives the door's answers to whom the API server has named.
func (d *door) handler() *handler {
	return &handler{
		identity: d.config.Identity, who: d.proxy.user, limits: &limits{}, answered: d.metrics.answered,
		hits: d.hits.get, status: d.status.get, versions: d.versions.get, topology: d.topology.get,
		flows: d.flows.get,
		dumps: d.dumps, commands: d.commands, captures: d.captures, prober: d.prober,
		trace: d.tracer.Trace,
		may: func(ctx context.Context, who user.Info, to right) (bool, error) {
			return has(ctx, d.client, who, to)
		},
	}
}

// ready says why nobody is answered now.
func (d *door) ready() error {
	if !d.serving.Load() {
		return errors.New("the API server's front proxy is not known yet, or the door closes")
	}
	return nil
}

// restart is after how long without an API server the door is worth a new start.
const restart = time.Minute

// lives says why the door does not come to serve by itself.
func (d *door) lives() error {
	if err := d.ready(); err != nil && time.Since(d.began) > restart {
		return err
	}
	return nil
}

// probes say whether anybody is answered, and whether a new start would help.
func (d *door) probes() httpserver.Probes {
	return httpserver.Probes{
		Metrics: d.metrics.registry, Alive: d.lives, Profiles: d.config.Profiling,
		Ready: func() (detail string, err error) { return "", d.ready() },
	}
}

// keepNode drops what is not read of a Node.
func keepNode(object any) (any, error) {
	if full, ok := object.(*corev1.Node); ok {
		return status.KeepNode(full), nil
	}
	return object, nil
}

// agents are the nodes on which Weft runs now.
func (d *door) agents() []hits.Node { return d.nodesOf(d.nodes.GetStore().List()) }

// nodesOf are those on which Weft runs. An agent that nobody should connect to gives no answer; that is logged once.
func (d *door) nodesOf(objects []any) []hits.Node {
	var nodes []hits.Node
	for _, object := range objects {
		node, ok := object.(*corev1.Node)
		if !ok {
			continue
		}
		n, present, err := nodeOf(node)
		if present {
			nodes = append(nodes, n)
		}
		if err == nil {
			d.refused.Delete(node.Name)
		} else if before, _ := d.refused.Swap(node.Name, err.Error()); before != err.Error() {
			slog.Warn("an agent is not asked", telemetry.Object("Node", "", node.Name), "error", err)
		}
	}
	return nodes
}

// nodeNamed is a Node on which Weft runs.
func (d *door) nodeNamed(name string) (hits.Node, bool) {
	object, there, err := d.nodes.GetStore().GetByKey(name)
	if err != nil || !there {
		return hits.Node{}, false
	}
	nodes := d.nodesOf([]any{object})
	if len(nodes) != 1 {
		return hits.Node{}, false
	}
	return nodes[0], true
}

// nodeOf reads a Node: where its agent is met, if it can be asked. present is false of one on which Weft does not run.
func nodeOf(object *corev1.Node) (n hits.Node, present bool, err error) {
	n.Name = object.Name
	facts, present, err := contract.Parse[contract.NodeFacts](object.Annotations, contract.NodeFactsAnnotation)
	if err != nil {
		return n, true, err
	}
	if facts.Counters == "" {
		return n, present, nil
	}
	var status []string
	for _, address := range object.Status.Addresses {
		status = append(status, address.Address)
	}
	end, err := contract.AgentEnd(facts.Counters, status, facts.Addresses)
	if err != nil {
		return n, present, fmt.Errorf("annotation %s: counters: %w", contract.NodeFactsAnnotation, err)
	}
	n.Address = end.String()
	return n, present, nil
}

type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	unanswered prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		registry: telemetry.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_observe_requests_total",
			Help: "Requests, by the code of the answer."}, []string{"code"}),
		unanswered: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_observe_unanswered_nodes",
			Help: "Nodes that did not answer when they were last asked for counters of flows."}),
	}
	m.registry.MustRegister(m.requests, m.unanswered)
	return m
}

func (m *metrics) answered(code int) { m.requests.WithLabelValues(strconv.Itoa(code)).Inc() }
