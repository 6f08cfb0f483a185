package observe

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/flows"
)

const (
	// flowsFresh is how old flows may be.
	flowsFresh = 5 * time.Second
	// maxFlows is how many an answer has.
	maxFlows = 20_000
	// maxNamespaces is about how many namespaces the API server is asked for one answer. Ends in further ones have no
	// names.
	maxNamespaces = 64
)

// networkFlows are for those who have their right in the whole cluster, and those with an end or the Service in a
// namespace for those who have it there.
func (h *handler) networkFlows(r *http.Request, who user.Info, namespace string) (any, error) {
	if err := wholeList(r, "fieldSelector"); err != nil {
		return nil, err
	}
	filter, err := flows.ParseFilter(r.URL.Query().Get("fieldSelector"), namespace)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := h.demandList(r.Context(), who, api.NetworkFlowsResource, namespace, api.NetworkFlowsRole); err != nil {
		return nil, err
	}
	all, err := h.flows(r.Context())
	if err != nil {
		return nil, err
	}
	list := *all
	list.Items = nil
	for _, item := range all.Items {
		seen, err := h.seenBy(r.Context(), who, item, namespace, filter)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, seen)
	}
	if asTable(r) {
		return flowsTable(&list), nil
	}
	return &list, nil
}

// seenBy are the flows of a namespace, "" being all, that fit a filter, as far as a user may see them. What he may not
// see fits no condition.
func (h *handler) seenBy(ctx context.Context, who user.Info, item api.NetworkFlows, namespace string,
	filter flows.Filter) (api.NetworkFlows, error) {
	view := flows.View{Namespace: namespace}
	var own []api.Flow
	for i := range item.Flows {
		if view.Has(&item.Flows[i]) {
			own = append(own, item.Flows[i])
		}
	}
	may, err := h.mayList(ctx, who, &view, own)
	if err != nil {
		return item, err
	}
	view.May = func(namespace string) bool { return may[""] || may[namespace] }
	if !may[""] {
		item.Unanswered, item.Unread = nil, withoutReasons(item.Unread)
	}
	item.Flows = []api.Flow{}
	for i := range own {
		flow := view.Cut(own[i])
		switch {
		case !filter.Fits(&flow):
		case filter.LeavesOut(&own[i]):
			if flows.FromOwnNode(&own[i]) {
				item.FromOwnNode++
			}
		case len(item.Flows) == maxFlows:
			item.Omitted++
		default:
			item.Flows = append(item.Flows, flow)
		}
	}
	return item, nil
}

// withoutReasons says that sources could not be read, and not why: without names, few flows fit a namespace, and nobody
// is to take them for all.
func withoutReasons(unread []api.Unread) (cut []api.Unread) {
	for _, u := range unread {
		cut = append(cut, api.Unread{Source: u.Source, Reason: "ask an administrator"})
	}
	return cut
}

// mayList says of which namespaces a user may list flows, of those that the flows tell of, and of "" whether of all.
func (h *handler) mayList(ctx context.Context, who user.Info, view *flows.View, own []api.Flow) (map[string]bool,
	error) {
	may := map[string]bool{"": view.Namespace == ""}
	if may[""] {
		return may, nil
	}
	ask := func(namespace string) (err error) {
		may[namespace], err = h.may(ctx, who, right{verb: "list", resource: api.NetworkFlowsResource, namespace: namespace})
		return err
	}
	if err := ask(""); err != nil || may[""] {
		return may, err
	}
	others := view.Namespaces(own)
	for _, namespace := range others[:min(len(others), maxNamespaces)] {
		if err := ask(namespace); err != nil {
			return nil, err
		}
	}
	return may, nil
}
