package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/telemetry"
)

const (
	// maxCaptures is how many captures a door passes on at a time, and maxCapturesOfUser those of one user.
	maxCaptures       = 16
	maxCapturesOfUser = 2
	// replyTime bounds how long an agent may take to begin. On Windows it has other programs run for that.
	replyTime = 30 * time.Second
	// captureSlack is, in bytes, what a file has beside its packets.
	captureSlack = 1 << 16
	// captureDelay is how long a capture may be behind when it ends.
	captureDelay = 15 * time.Second
)

// captureType is the media type of pcapng.
const captureType = "application/x-pcapng"

// captured is the Pod or the Node of a request; a Node has no namespace.
type captured struct{ resource, namespace, name string }

// role is the ClusterRole that has the right.
func (c captured) role() string {
	if c.resource == api.NodeCaptureResource {
		return api.NodeCaptureRole
	}
	return api.CaptureRole
}

func (c captured) log() slog.Attr {
	if c.resource == api.NodeCaptureResource {
		return telemetry.Object("Node", "", c.name)
	}
	return telemetry.Object("Pod", c.namespace, c.name)
}

// capturePath says whose capture a request creates.
func capturePath(r *http.Request) (c captured, ok bool) {
	path, ours := strings.CutPrefix(r.URL.Path, "/apis/"+api.GroupVersion+"/")
	words := strings.Split(path, "/")
	if !ours || r.Method != http.MethodPost || words[len(words)-1] != api.CaptureSubresource {
		return c, false
	}
	switch {
	case len(words) == 5 && words[0] == "namespaces" && words[2] == api.CaptureResource:
		c = captured{words[2], words[1], words[3]}
		ok = len(validation.IsDNS1123Label(c.namespace)) == 0
	case len(words) == 3 && words[0] == api.NodeCaptureResource:
		c, ok = captured{resource: words[0], name: words[1]}, true
	}
	return c, ok && len(validation.IsDNS1123Subdomain(c.name)) == 0
}

// captures pass on what nodes' agents capture.
type captures struct {
	client kubernetes.Interface
	agents agentDialer
	limits *limits
}

// createCapture answers with packets. The API server has asked for the right, too.
func (h *handler) createCapture(w http.ResponseWriter, r *http.Request, who user.Info, c captured) (any, error) {
	if err := h.demandCapture(r.Context(), who, c); err != nil {
		return nil, err
	}
	asked := &api.Capture{}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	body.DisallowUnknownFields()
	if err := body.Decode(asked); err != nil {
		return nil, apierrors.NewBadRequest("the body is not a Capture of " + api.GroupVersion + ": " + err.Error())
	}
	request := contract.CaptureRequest{User: who.GetName(), Spec: contract.CaptureDefaults(asked.Spec)}
	if err := contract.CheckCapture(request.Spec); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	release, err := h.captures.limits.enter(who.GetName())
	if err != nil {
		return nil, err
	}
	packets, late, err := h.captures.begin(r.Context(), c, request)
	if err != nil {
		release()
		return nil, err
	}
	answer := stream{kind: captureType, lasts: request.Spec.Duration.Duration + captureDelay}
	if late {
		answer.lasts += contract.CaptureLateness
		answer.warning = fmt.Sprintf("the node gives its packets when the capture has ended, in %v; Ctrl-C before that "+
			"leaves none", request.Spec.Duration.Duration)
	}
	answer.write = func(ctx context.Context, w http.ResponseWriter) error {
		defer release()
		ctx, cancel := context.WithTimeout(ctx, answer.lasts)
		defer cancel()
		return passOn(ctx, flushing{w, http.NewResponseController(w).Flush}, packets, c, request)
	}
	return answer, nil
}

func (h *handler) demandCapture(ctx context.Context, who user.Info, c captured) error {
	allowed, err := h.may(ctx, who, right{verb: "create", resource: c.resource, subresource: api.CaptureSubresource,
		namespace: c.namespace, name: c.name})
	if err != nil || allowed {
		return err
	}
	where, binding := "", "a ClusterRoleBinding"
	if c.namespace != "" {
		where, binding = " in namespace "+c.namespace, "a RoleBinding in it"
	}
	return refusal(who, "create", c.resource+"/"+api.CaptureSubresource, c.name, c.role(), where, binding)
}

// begin asks the agent of the node. Its packets come from the connection, late if they do when the capture has ended.
func (s *captures) begin(
	ctx context.Context, c captured, request contract.CaptureRequest,
) (packets net.Conn, late bool, err error) {
	name := c.name
	if c.resource == api.CaptureResource {
		pod, err := podNamed(ctx, s.client, c.namespace, c.name)
		if err != nil {
			return nil, false, err
		}
		if err := hasOwnNetwork(pod); err != nil {
			return nil, false, conflict(c, err)
		}
		name, request.Pod = pod.Spec.NodeName, referenceOf(pod)
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	conn, err := s.agents.open(ctx, name)
	if err != nil {
		return nil, false, conflict(c, err)
	}
	release := context.AfterFunc(ctx, func() { conn.Close() })
	defer release()
	said, err := exchange[contract.CaptureReply](conn, request)
	if err == nil {
		err = refusedByAgent(said.Error)
	}
	if err != nil {
		conn.Close()
		return nil, false, conflict(c, fmt.Errorf("node %s: %w", name, err))
	}
	return conn, said.Late, nil
}

// conflict says why there are no packets of what exists. What does not exist is said as it is.
func conflict(c captured, why error) error {
	if apierrors.IsNotFound(why) {
		return why
	}
	return apierrors.NewConflict(schema.GroupResource{Group: group, Resource: c.resource}, c.name, why)
}

// passOn writes what comes from an agent, as it comes, until one of both ends. Nothing is kept: an agent that is not
// read from drops packets.
func passOn(ctx context.Context, w io.Writer, packets net.Conn, c captured, request contract.CaptureRequest) error {
	defer packets.Close()
	defer context.AfterFunc(ctx, func() { packets.Close() })()
	log := slog.With("user", request.User, c.log(), "filter", request.Spec.Filter.String())
	log.InfoContext(ctx, "a capture begins", "duration", request.Spec.Duration.Duration)
	passed, err := io.Copy(w, io.LimitReader(packets, request.Spec.Bytes+captureSlack))
	if err != nil { // of the agent, or since the user has gone
		log = log.With("error", err)
	}
	log.InfoContext(ctx, "a capture has ended", "bytes", passed)
	return err
}

// flushing hands each write on at once, for those who look at packets as they come.
type flushing struct {
	io.Writer
	flush func() error
}

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	if err == nil {
		err = f.flush()
	}
	return n, err
}
