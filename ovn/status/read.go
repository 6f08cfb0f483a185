package status

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovsdb"
)

// patience is how long one source may take.
const patience = 8 * time.Second

// Sources are where the status is read.
type Sources struct {
	// Door is the identity of the door that reads.
	Door string
	// DoorNamespace is where doors have their Leases.
	DoorNamespace string
	// Northbound and Southbound are the servers beside it.
	Northbound, Southbound ovsdb.Config
	// Kubernetes is any client of the API server: paths are given whole.
	Kubernetes rest.Interface
	// Nodes are those that the door watches, as [KeepNode] leaves them.
	Nodes func() []*corev1.Node
	// Certificates are the door's own.
	Certificates func() ([]api.Certificate, error)
}

// reading is what the sources have said, each in its own field.
type reading struct {
	at    time.Time
	door  string
	nodes []*corev1.Node

	northbound   north
	southbound   south
	leases       leases
	waiting      waitingPods
	pools        []api.PoolStatus
	egress       []api.EgressStatus
	balancers    []api.LoadBalancerStatus
	policies     [len(policyKinds)]policies
	events       [len(components)]warnings
	groups       []group
	certificates []api.Certificate

	mu     sync.Mutex
	unread []api.Unread
}

// Read asks all sources. What one of them does not tell is a finding, and no error.
func (s *Sources) Read(ctx context.Context) *api.NetworkStatusList {
	r := &reading{at: time.Now(), door: s.Door, nodes: s.Nodes()}
	var group sync.WaitGroup
	ask := func(source string, question func(context.Context) error) {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if err := question(ctx); err != nil {
				r.miss(source, err)
			}
		})
	}
	ask("", func(ctx context.Context) error { r.northbound = readNorthbound(ctx, s.Northbound); return nil })
	ask("", func(ctx context.Context) error { r.southbound = readSouthbound(ctx, s.Southbound); return nil })
	cluster := &cluster{s.Kubernetes}
	ask("Leases", func(ctx context.Context) (err error) { r.leases, err = cluster.leases(ctx); return err })
	ask("Pods", func(ctx context.Context) (err error) { r.waiting, err = cluster.waiting(ctx); return err })
	ask("AddressPools", func(ctx context.Context) (err error) { r.pools, err = cluster.pools(ctx); return err })
	ask("EgressIPs", func(ctx context.Context) (err error) { r.egress, err = cluster.egress(ctx); return err })
	ask("Services", func(ctx context.Context) (err error) { r.balancers, err = cluster.balancers(ctx); return err })
	for i, kind := range policyKinds {
		ask(kind.name, func(ctx context.Context) (err error) { r.policies[i], err = cluster.policies(ctx, kind); return err })
	}
	for i, component := range components {
		ask("Events of "+component, func(ctx context.Context) (err error) {
			r.events[i], err = cluster.events(ctx, component, r.at.Add(-eventAge))
			return err
		})
	}
	ask("certificates of the door", func(context.Context) (err error) {
		r.certificates, err = s.Certificates()
		return err
	})
	group.Wait()
	r.groups = r.grouped()
	ask("objects of Events", func(ctx context.Context) error { return cluster.lookUp(ctx, r.groups, r.at) })
	group.Wait()
	return r.list()
}

func (r *reading) miss(source string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread = append(r.unread, api.Unread{Source: source, Reason: cut(err.Error())})
}

// list is what was read, and what is wrong.
func (r *reading) list() *api.NetworkStatusList {
	status := r.status()
	status.Findings = Judge(status)
	status.Result, status.NotJudged = resultOf(status.Findings), notJudged
	fair(r.groups, func(group) bool { return false }) // the list is not only of findings
	status.Events, status.EventsLeftOut = listed(told(r.groups))
	return &api.NetworkStatusList{
		TypeMeta: metav1.TypeMeta{Kind: api.NetworkStatusKind + "List", APIVersion: api.GroupVersion},
		Items:    []api.NetworkStatus{*status},
	}
}

// maxText bounds a text that somebody else has written, in bytes.
const maxText = 1000
