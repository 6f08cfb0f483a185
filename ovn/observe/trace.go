package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/trace"
)

const (
	// maxTraces is how many runs of ovn-trace there are at a time. Each reads the whole Southbound.
	maxTraces = 2
	// maxQuestion is how long a question may be, in bytes.
	maxQuestion = 1 << 14
)

// tracesOf is the resource in errors.
var tracesOf = schema.GroupResource{Group: group, Resource: api.TraceResource}

// tracePath gives the namespace in which a request creates a Trace, "" being none.
func tracePath(r *http.Request) (namespace string, ok bool) {
	if r.Method != http.MethodPost {
		return "", false
	}
	return listPath(r.URL.Path, api.TraceResource)
}

// createTrace answers a question. The API server has asked for the right in the namespace of the path, which is that of
// the source, and in the whole cluster where the path has none.
func (h *handler) createTrace(w http.ResponseWriter, r *http.Request, who user.Info, namespace string) (any, error) {
	question := &api.Trace{}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	body.DisallowUnknownFields()
	if err := body.Decode(question); err != nil {
		return nil, apierrors.NewBadRequest("the body is not a Trace of " + api.GroupVersion + ": " + err.Error())
	}
	if question.Spec.Source.Namespace != namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.source.namespace: %q is not the namespace of the request, %q: "+
			"create the Trace in the namespace of its source, and that of a Node without a namespace",
			question.Spec.Source.Namespace, namespace))
	}
	may := func(ctx context.Context, namespace string) (bool, error) {
		return h.may(ctx, who, right{verb: "create", resource: api.TraceResource, namespace: namespace})
	}
	if err := mayTrace(r.Context(), may, namespace); err != nil {
		return nil, h.traceError(r.Context(), who, err)
	}
	if question.Spec.Live {
		release, err := h.demandLive(r.Context(), who, namespace)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	status, err := h.trace(ctx, question.Spec, may)
	if err != nil {
		return nil, h.traceError(r.Context(), who, err)
	}
	if status.Probe != nil {
		h.prober.send(ctx, who, question.Spec.Source, status)
	}
	return &api.Trace{TypeMeta: metav1.TypeMeta{Kind: api.TraceKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: question.Name}, Spec: question.Spec, Status: *status}, nil
}

// mayTrace refuses whoever has no right in the namespace of a request, before the question is looked at.
func mayTrace(ctx context.Context, may trace.May, namespace string) error {
	allowed, err := may(ctx, namespace)
	if err == nil && !allowed {
		err = &trace.ForbiddenError{Namespace: namespace, Why: "this is a question"}
	}
	return err
}

// traceError is what a user is told.
func (h *handler) traceError(ctx context.Context, who user.Info, err error) error {
	var wrong *trace.QuestionError
	var forbidden *trace.ForbiddenError
	switch {
	case errors.As(err, &wrong):
		return apierrors.NewBadRequest(wrong.Error())
	case errors.As(err, &forbidden):
		return apierrors.NewForbidden(tracesOf, "", fmt.Errorf("user %q has no right to create it: %w: an administrator "+
			"binds the ClusterRole %s to the user", who.GetName(), forbidden, api.TraceRole))
	}
	slog.ErrorContext(ctx, "a trace cannot be made", "error", err)
	if errors.Is(err, exec.ErrNotFound) {
		return apierrors.NewServiceUnavailable("ovn-trace is not beside this weft observe: install the package ovn-common " +
			"there")
	}
	return apierrors.NewServiceUnavailable("the trace cannot be made now; the log of weft observe says why")
}
