package observe

import (
	"log/slog"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/observe/topology"
)

// topologyFresh is how old a topology may be.
const topologyFresh = 5 * time.Second

// networkTopology is for those who have its right in the whole cluster, and of a namespace for those who have it there.
func (h *handler) networkTopology(r *http.Request, who user.Info, namespace string) (any, error) {
	node, err := selectedNode(r)
	if err != nil {
		return nil, err
	}
	if err := h.demandList(r.Context(), who, api.NetworkTopologyResource, namespace, api.NetworkTopologyRole); err != nil {
		return nil, err
	}
	all, err := h.topology(r.Context())
	if err != nil {
		slog.ErrorContext(r.Context(), "the topology cannot be read", "error", err)
		return nil, apierrors.NewServiceUnavailable("the topology cannot be read now; the log of weft observe says why")
	}
	list := topology.Of(all, namespace, node)
	if asTable(r) {
		return topologyTable(list), nil
	}
	return list, nil
}

// selectedNode is the node of a request's field selector, and "" without one.
func selectedNode(r *http.Request) (node string, err error) {
	if err := wholeList(r, "fieldSelector"); err != nil {
		return "", err
	}
	text := r.URL.Query().Get("fieldSelector")
	if text == "" {
		return "", nil
	}
	selector, err := fields.ParseSelector(text)
	if err == nil {
		if node, only := selector.RequiresExactMatch(api.NodeSelector); only && len(selector.Requirements()) == 1 {
			return node, nil
		}
	}
	return "", apierrors.NewBadRequest("fieldSelector: only " + api.NodeSelector + "=NODE is served here")
}
