package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/explain"
)

// About says whose page it is.
type About struct {
	// Context is the name of the kubeconfig's context; empty if it is not known.
	Context string `json:"context"`
	// Server is the address of the API server.
	Server string `json:"server"`
	// Namespace is the only one that is shown; empty: all of them.
	Namespace string `json:"namespace"`
	// Version is that of the program.
	Version string `json:"version"`
}

// Cluster is asked by the rights of a user.
type Cluster struct {
	about  About
	config *rest.Config
	client rest.Interface
}

// NewCluster asks the API server of a kubeconfig. Its address in about is set here.
func NewCluster(config *rest.Config, about About) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // a look at the page is four requests, and live connections are two more
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	about.Server = config.Host
	return &Cluster{about: about, config: config, client: client.RESTClient()}, nil
}

// question is a list that the page may ask the API server for.
type question struct {
	// root is the path of the API's version.
	root, resource string
	// wide is true of a resource that has no namespace.
	wide bool
	// role is the ClusterRole that has the right.
	role string
	// fields is its field selector.
	fields string
}

const observe = "/apis/" + api.GroupVersion

// questions are all lists that the page may ask for.
var questions = map[string]question{
	"status":   {root: observe, resource: api.NetworkStatusResource, wide: true, role: api.NetworkStatusRole},
	"topology": {root: observe, resource: api.NetworkTopologyResource, role: api.NetworkTopologyRole},
	"flows": {root: observe, resource: api.NetworkFlowsResource, role: api.NetworkFlowsRole,
		fields: api.FromOwnNodeSelector + "=false"}, // as `weft flows` asks
	"hits":      {root: observe, resource: api.PolicyHitsResource, role: api.PolicyHitsRole},
	"services":  {root: "/api/v1", resource: "services", role: "view"},
	"endpoints": {root: "/apis/discovery.k8s.io/v1", resource: "endpointslices", role: "view"},
}

// traces is what a trace is created of.
var traces = question{root: observe, resource: api.TraceResource, role: api.TraceRole}

// path is the question's on the API server.
func (q question) path(namespace string) []string {
	if q.wide || namespace == "" {
		return []string{q.root, q.resource}
	}
	return []string{q.root, "namespaces", namespace, q.resource}
}

// patience is how long a question may take.
const patience = 30 * time.Second

func (p *Page) list(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "about" {
		answer(w, http.StatusOK, p.cluster.about)
		return
	}
	q, known := questions[name]
	if !known {
		refuse(w, &failure{Code: http.StatusNotFound, Message: fmt.Sprintf("%q is no question of the page", name)})
		return
	}
	request := p.cluster.client.Get().AbsPath(q.path(p.cluster.about.Namespace)...)
	if q.fields != "" {
		request.Param("fieldSelector", q.fields)
	}
	p.relay(w, r, q, request)
}

// maxTrace bounds a question about a packet, in bytes.
const maxTrace = 1 << 12

func (p *Page) trace(w http.ResponseWriter, r *http.Request) {
	trace := api.Trace{TypeMeta: metav1.TypeMeta{Kind: api.TraceKind, APIVersion: api.GroupVersion}}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTrace))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&trace.Spec); err != nil {
		refuse(w, &failure{Code: http.StatusBadRequest, Message: "read the spec of a Trace: " + err.Error()})
		return
	}
	namespace := trace.Spec.Source.Namespace
	if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
		refuse(w, &failure{Code: http.StatusBadRequest,
			Message: fmt.Sprintf("source: namespace %q: %s", namespace, wrong[0])})
		return
	}
	body, err := json.Marshal(trace)
	if err != nil {
		refuse(w, &failure{Code: http.StatusInternalServerError, Message: err.Error()})
		return
	}
	p.relay(w, r, traces, p.cluster.client.Post().AbsPath(traces.path(namespace)...).Body(body).
		SetHeader("Content-Type", "application/json"))
}

// reachability judges on this machine, by what the user may list of the API server, as `weft policy explain` does.
func (p *Page) reachability(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	cluster, err := explain.Read(ctx, p.cluster.config, explain.Question{})
	if err != nil {
		refuse(w, &failure{Code: codeOf(err), Message: err.Error(),
			Remedy: "you need rights to list Namespaces, Nodes, Pods and policies of all kinds in the whole cluster, and " +
				"ResolvedNames if a policy names a domain"})
		return
	}
	reach, err := cluster.Reach(p.cluster.about.Namespace)
	if err != nil {
		remedy := "`weft ui -n NAMESPACE`"
		if p.cluster.about.Namespace != "" {
			remedy = "`weft policy explain NAMESPACE/POD NAMESPACE/POD:PORT`"
		}
		refuse(w, &failure{Code: http.StatusUnprocessableEntity, Message: err.Error(), Remedy: remedy})
		return
	}
	answer(w, http.StatusOK, reach)
}

// relay sends a request to the API server, and its answer to the page.
func (p *Page) relay(w http.ResponseWriter, r *http.Request, q question, request *rest.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var code int
	result := request.SetHeader("Accept", "application/json").Do(ctx).StatusCode(&code)
	text, _ := result.Raw()
	if err := result.Error(); err != nil { // Raw's has no words
		refuse(w, q.failure(err, p.cluster.about.Namespace))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // the browser may be gone
}

// failure is what the page is told instead of an answer.
type failure struct {
	// Code is the HTTP status.
	Code    int    `json:"code"`
	Message string `json:"message"`
	// Remedy is the action that ends it; empty if none is known.
	Remedy string `json:"remedy,omitempty"`
}

// failure has the API server's own words, and says what to do about them.
func (q question) failure(err error, namespace string) *failure {
	f := &failure{Code: codeOf(err), Message: err.Error()}
	binding := "clusterrolebinding NAME"
	if namespace != "" && !q.wide {
		binding = "rolebinding NAME --namespace=" + namespace
	}
	switch {
	case apierrors.IsForbidden(err):
		f.Remedy = fmt.Sprintf("an administrator gives the right: kubectl create %s --clusterrole=%s --user=USER", binding,
			q.role)
		if namespace == "" && !q.wide {
			f.Remedy += "; `weft ui -n NAMESPACE` shows one namespace"
		}
	case q.root == observe && apierrors.IsNotFound(err):
		f.Remedy = "install weft observe, of this version"
	case q.root == observe && apierrors.IsServiceUnavailable(err):
		f.Remedy = fmt.Sprintf("see `kubectl get apiservice %s.%s` and docs/operations.md", api.Version, api.Group)
	}
	return f
}

// codeOf is the API server's HTTP status, or 502 if it has not answered.
func codeOf(err error) int {
	var known apierrors.APIStatus
	if errors.As(err, &known) && known.Status().Code >= http.StatusBadRequest {
		return int(known.Status().Code)
	}
	return http.StatusBadGateway
}

func refuse(w http.ResponseWriter, f *failure) { answer(w, f.Code, f) }

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the browser may be gone
}
