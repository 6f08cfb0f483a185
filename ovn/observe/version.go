package observe

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// versionFresh is how old versions may be.
const versionFresh = 5 * time.Second

// versionPath is where the versions of the network are listed. There are none of a namespace.
const versionPath = "/apis/" + api.GroupVersion + "/" + api.NetworkVersionResource

// networkVersion names all nodes. So it is for those who have its right in the whole cluster.
func (h *handler) networkVersion(r *http.Request, who user.Info) (any, error) {
	if err := wholeList(r); err != nil {
		return nil, err
	}
	if err := h.demandList(r.Context(), who, api.NetworkVersionResource, "", api.NetworkVersionRole); err != nil {
		return nil, err
	}
	list, err := h.versions(r.Context())
	if err == nil && asTable(r) {
		return versionTable(list), nil
	}
	return list, err
}
