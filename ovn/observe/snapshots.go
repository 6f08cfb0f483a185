package observe

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovn/hits"
)

const (
	// fresh is how old an answer may be. However many users ask, databases and nodes are asked once in that time.
	fresh = 2 * time.Second
	// readTime bounds one reading of databases and nodes.
	readTime = 25 * time.Second
)

// snapshots are readings that all users share.
type snapshots struct {
	read func(context.Context) (hits.Counts, error)
	now  func() time.Time

	mu   sync.Mutex
	last *reading // the one under way, or the last one
}

type reading struct {
	began time.Time
	done  chan struct{} // closed when the rest is there
	list  *api.PolicyHitsList
	err   error
}

// get waits for a reading that is fresh. Who asks may leave: others may wait for the same.
func (s *snapshots) get(ctx context.Context) (*api.PolicyHitsList, error) {
	r := s.current()
	select {
	case <-r.done:
		return r.list, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// current is a reading that began not long ago. One that takes longer is joined, too, so there is one at a time.
func (s *snapshots) current() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && (!s.last.ended() || s.now().Sub(s.last.began) < fresh && s.last.err == nil) {
		return s.last
	}
	r := &reading{began: s.now(), done: make(chan struct{})}
	s.last = r
	go func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		defer cancel()
		counts, err := s.read(ctx)
		r.list, r.err = listOf(counts), err
	}()
	return r
}

func (r *reading) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// listOf adds up what nodes have counted. Counts are sorted by policy and rule.
func listOf(counts hits.Counts) *api.PolicyHitsList {
	list := &api.PolicyHitsList{
		TypeMeta: metav1.TypeMeta{Kind: api.PolicyHitsKind + "List", APIVersion: api.GroupVersion}, Items: []api.PolicyHits{},
		NodesAsked: counts.Asked, NodesUnanswered: len(counts.Unanswered),
	}
	var last explain.Mark
	for _, c := range counts.Counts {
		if len(list.Items) == 0 || c.Rule != last {
			list.Items = append(list.Items, itemOf(c))
			last = c.Rule
		}
		item := &list.Items[len(list.Items)-1]
		item.Packets += c.Packets
		item.Bytes += c.Bytes
		item.Nodes = append(item.Nodes, api.NodeHits{Node: c.Node, Packets: c.Packets, Bytes: c.Bytes})
	}
	for _, node := range slices.Sorted(maps.Keys(counts.Unanswered)) {
		slog.Warn("a node does not tell what its flows have counted", "node", node, "error", counts.Unanswered[node])
		list.Unanswered = append(list.Unanswered, api.Unanswered{Node: node, Reason: counts.Unanswered[node].Error()})
	}
	return list
}

func itemOf(c hits.Count) api.PolicyHits {
	namespace := c.Rule.Namespace()
	return api.PolicyHits{
		TypeMeta:   metav1.TypeMeta{Kind: api.PolicyHitsKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.TrimPrefix(c.Rule.Name, namespace+"/")},
		Policy:     c.Rule.Policy(), Rule: hits.RuleName(c.Rule), Action: c.Action,
	}
}
