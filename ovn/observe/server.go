package observe

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/trace"
)

const (
	group   = api.Group
	version = api.Version
)

// handler serves the API. What a user may ask is decided here, and nowhere below.
type handler struct {
	// identity is the door's among the doors.
	identity string
	// who is the user that a request is of.
	who func(*http.Request) (user.Info, error)
	// may says whether he has a right.
	may func(ctx context.Context, who user.Info, to right) (bool, error)
	// hits are those of all policies.
	hits func(context.Context) (*api.PolicyHitsList, error)
	// status is that of the network.
	status func(context.Context) (*api.NetworkStatusList, error)
	// versions are those of the network's parts.
	versions func(context.Context) (*api.NetworkVersionList, error)
	// topology is that of the whole network.
	topology func(context.Context) (*api.NetworkTopologyList, error)
	// flows are those of all nodes.
	flows    func(context.Context) (*api.NetworkFlowsList, error)
	dumps    *dumps
	commands *commands
	// trace answers a question, as far as the user may see the answer.
	trace    func(context.Context, api.TraceSpec, trace.May) (*api.TraceStatus, error)
	prober   *prober
	captures *captures
	limits   *limits
	answered func(code int)
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := h.answer(w, r)
	if s, ok := answer.(stream); ok {
		h.answered(http.StatusOK)
		s.send(w, r)
		return
	}
	if t, ok := answer.(*table); ok {
		for _, text := range t.warnings {
			warning(w, text)
		}
	}
	code := http.StatusOK
	if r.Method == http.MethodPost {
		code = http.StatusCreated
	}
	if err != nil {
		status := apierrors.NewInternalError(err).Status()
		if known, ok := err.(apierrors.APIStatus); ok {
			status = known.Status()
		} else {
			slog.ErrorContext(r.Context(), "a request is not answered", "path", r.URL.Path, "error", err)
		}
		status.Kind, status.APIVersion = "Status", "v1"
		code, answer = int(status.Code), status
		if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
		}
	}
	h.answered(code)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // who asked may be gone
}

func (h *handler) answer(w http.ResponseWriter, r *http.Request) (any, error) {
	who, err := h.who(r)
	if err != nil {
		slog.WarnContext(r.Context(), "a request is of nobody whom the API server has let in", "peer", r.RemoteAddr, "error",
			err)
		return nil, apierrors.NewUnauthorized("the request does not come by the API server's front proxy, or names no user")
	}
	namespace, creates := tracePath(r)
	object, capturing := capturePath(r)
	if r.Method != http.MethodGet && !creates && !capturing {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Group: group}, strings.ToLower(r.Method))
	}
	if found := discovery(r.URL.Path); found != nil {
		return found, nil // it costs nothing, and namespaces are not deleted while it fails
	}
	release, err := h.limits.enter(who.GetName())
	if err != nil {
		return nil, err
	}
	defer release()
	switch {
	case creates:
		return h.createTrace(w, r, who, namespace)
	case capturing:
		return h.createCapture(w, r, who, object)
	}
	return h.read(r, who)
}

// read answers a GET of what is not discovery.
func (h *handler) read(r *http.Request, who user.Info) (any, error) {
	switch r.URL.Path {
	case statusPath:
		return h.networkStatus(r, who)
	case versionPath:
		return h.networkVersion(r, who)
	}
	if namespace, ok := listPath(r.URL.Path, api.NetworkTopologyResource); ok {
		return h.networkTopology(r, who, namespace)
	}
	if namespace, ok := listPath(r.URL.Path, api.NetworkFlowsResource); ok {
		return h.networkFlows(r, who, namespace)
	}
	if name, ok := namePath(r.URL.Path, api.NetworkDumpResource); ok {
		return h.networkDump(r, who, name)
	}
	if name, ok := namePath(r.URL.Path, api.OVNCommandResource); ok {
		return h.ovnCommand(r, who, name)
	}
	namespace, ok := listPath(r.URL.Path, api.PolicyHitsResource)
	if !ok {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Group: group}, "",
			"there is nothing at this path", 0, false)
	}
	return h.policyHits(r, who, namespace)
}

// wholeList refuses what would be more, or less, than a list of all. The keys in served are left to the caller.
func wholeList(r *http.Request, served ...string) error {
	for _, key := range []string{"watch", "labelSelector", "fieldSelector"} {
		if slices.Contains(served, key) {
			continue
		}
		if value := r.URL.Query().Get(key); value != "" && value != "false" && value != "0" {
			return apierrors.NewBadRequest(key + " is not served here: ask for the whole list")
		}
	}
	return nil
}

// discovery answers what every API server is asked by its clients; nil where a path is none of that.
func discovery(path string) any {
	served := metav1.GroupVersionForDiscovery{GroupVersion: api.GroupVersion, Version: version}
	own := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group,
		Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served}
	switch strings.TrimSuffix(path, "/") {
	case "/apis":
		return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{own}}
	case "/apis/" + group:
		return own
	case "/apis/" + api.GroupVersion:
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: api.GroupVersion,
			APIResources: []metav1.APIResource{
				{Name: api.PolicyHitsResource, SingularName: "policyhit", Namespaced: true, Kind: api.PolicyHitsKind,
					Verbs: []string{"list"}},
				{Name: api.NetworkStatusResource, SingularName: "networkstatus", Kind: api.NetworkStatusKind,
					Verbs: []string{"list"}},
				{Name: api.NetworkVersionResource, SingularName: "networkversion", Kind: api.NetworkVersionKind,
					Verbs: []string{"list"}},
				{Name: api.NetworkTopologyResource, SingularName: "networktopology", Namespaced: true,
					Kind: api.NetworkTopologyKind, Verbs: []string{"list"}},
				{Name: api.NetworkFlowsResource, SingularName: "networkflow", Namespaced: true, Kind: api.NetworkFlowsKind,
					Verbs: []string{"list"}},
				{Name: api.NetworkDumpResource, SingularName: "networkdump", Kind: api.NetworkDumpKind, Verbs: []string{"get"}},
				{Name: api.OVNCommandResource, SingularName: "ovncommand", Kind: api.OVNCommandKind, Verbs: []string{"get"}},
				{Name: api.TraceResource, SingularName: "trace", Namespaced: true, Kind: api.TraceKind, Verbs: []string{"create"}},
				{Name: api.CaptureResource + "/" + api.CaptureSubresource, Namespaced: true, Kind: api.CaptureKind,
					Verbs: []string{"create"}},
				{Name: api.NodeCaptureResource + "/" + api.CaptureSubresource, Kind: api.CaptureKind, Verbs: []string{"create"}},
			}}
	}
	return nil
}
