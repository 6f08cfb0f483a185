package connections

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/flows"
	"github.com/weftnet/weft/ovn/hits"
)

const (
	// parallel is how many agents are asked at a time.
	parallel = 64
	// maxEntries is how many entries of all nodes are joined. Each node may tell its share of them.
	maxEntries = 300_000
)

// Sources are where flows are read.
type Sources struct {
	// Agents are the nodes whose agents are asked, by Dial.
	Agents func() []hits.Node
	Dial   hits.Dial
	// Nodes are those that the door watches.
	Nodes func() []*corev1.Node
	// Topology has the ports of pods and routers.
	Topology func(context.Context) (*api.NetworkTopologyList, error)
	// Kubernetes has the Services.
	Kubernetes kubernetes.Interface
}

// reading is what the sources have said.
type reading struct {
	at time.Time

	mu         sync.Mutex
	entries    []flows.Entry
	omitted    int
	unanswered []api.Unanswered
	unread     []api.Unread
}

// Read asks all sources. An agent that does not answer is told, and so is a source of names.
func (s *Sources) Read(ctx context.Context) *api.NetworkFlowsList {
	r, agents := &reading{at: time.Now()}, s.Agents()
	var group sync.WaitGroup
	var names *flows.Names
	group.Go(func() { names = s.names(ctx, r) })
	group.Go(func() { s.ask(ctx, agents, r) })
	group.Wait()
	slices.SortFunc(r.unanswered, func(a, b api.Unanswered) int { return cmp.Compare(a.Node, b.Node) })
	return &api.NetworkFlowsList{
		TypeMeta: metav1.TypeMeta{Kind: api.NetworkFlowsKind + "List", APIVersion: api.GroupVersion},
		Items: []api.NetworkFlows{{
			TypeMeta:   metav1.TypeMeta{Kind: api.NetworkFlowsKind, APIVersion: api.GroupVersion},
			ObjectMeta: metav1.ObjectMeta{Name: api.NetworkFlowsName}, Time: metav1.NewMicroTime(r.at),
			Flows: flows.Join(r.entries, names), Omitted: r.omitted,
			NodesAsked: len(agents), NodesUnanswered: len(r.unanswered), Unanswered: r.unanswered, Unread: r.unread,
		}},
	}
}

// ask asks all agents.
func (s *Sources) ask(ctx context.Context, agents []hits.Node, r *reading) {
	most := min(contract.MaxConnections, maxEntries/max(len(agents), 1))
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, node := range agents {
		group.Go(func() error {
			entries, omitted, err := ask(ctx, s.Dial, node, most)
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil {
				slog.WarnContext(ctx, "a node does not tell its connections", telemetry.Object("Node", "", node.Name), "error",
					err)
				r.unanswered = append(r.unanswered, api.Unanswered{Node: node.Name, Reason: err.Error()})
			}
			r.entries, r.omitted = append(r.entries, entries...), r.omitted+omitted
			return nil
		})
	}
	_ = group.Wait() // an agent's error is told as its own
}

// names are those that can be read.
func (s *Sources) names(ctx context.Context, r *reading) *flows.Names {
	topology := &api.NetworkTopology{}
	list, err := s.Topology(ctx)
	if err == nil && len(list.Items) > 0 {
		topology = &list.Items[0]
	}
	r.miss("OVN_Northbound", err)
	names := flows.NewNames(topology, s.Nodes())
	r.miss("Services", s.eachService(ctx, names.AddService))
	return names
}

func (r *reading) miss(source string, err error) {
	if err != nil {
		r.unread = append(r.unread, api.Unread{Source: source, Reason: err.Error()})
	}
}

// eachService lists the Services page by page.
func (s *Sources) eachService(ctx context.Context, add func(*corev1.Service)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return s.Kubernetes.CoreV1().Services("").List(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		service, ok := object.(*corev1.Service)
		if !ok {
			return fmt.Errorf("the API server answers with a %T", object)
		}
		add(service)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	return nil
}
