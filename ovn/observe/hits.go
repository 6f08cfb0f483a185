package observe

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovn/hits"
)

// hitsFresh is how old hits may be.
const hitsFresh = 2 * time.Second

func (h *handler) policyHits(r *http.Request, who user.Info, namespace string) (any, error) {
	if err := wholeList(r); err != nil {
		return nil, err
	}
	resource := schema.GroupResource{Group: group, Resource: api.PolicyHitsResource}
	allowed, err := h.may(r.Context(), who, right{verb: "list", resource: api.PolicyHitsResource,
		namespace: namespace})
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, apierrors.NewForbidden(resource, "", forbidden(who.GetName(), namespace))
	}
	all, err := h.hits(r.Context())
	if err != nil {
		slog.ErrorContext(r.Context(), "hits cannot be read", "error", err)
		return nil, apierrors.NewServiceUnavailable(
			"the policies' rules cannot be read now; the log of weft observe says why")
	}
	list := of(all, namespace)
	if asTable(r) {
		return hitsTable(list), nil
	}
	return list, nil
}

// of is what may be seen by who may list a namespace: rules of its policies, and of the nodes how many have not
// answered.
func of(all *api.PolicyHitsList, namespace string) *api.PolicyHitsList {
	if namespace == "" {
		return all
	}
	list := *all
	list.Items, list.Unanswered = []api.PolicyHits{}, nil
	for _, item := range all.Items {
		if item.Namespace == namespace {
			list.Items = append(list.Items, item)
		}
	}
	return &list
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
		slog.Warn("a node does not tell what its flows have counted", telemetry.Object("Node", "", node),
			"error", counts.Unanswered[node])
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
