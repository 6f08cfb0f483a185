package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Asker has pods make requests.
type Asker interface {
	// Ask has a pod make a request. It fails if the pod cannot be asked. What the pod itself has met is in its reply.
	Ask(ctx context.Context, namespace, pod string, port int, d Dial) (Reply, error)
}

// Proxy asks pods by the API server's proxy.
type Proxy struct {
	Client rest.Interface // of the core API
}

// Ask is [Asker]'s.
func (p Proxy) Ask(ctx context.Context, namespace, pod string, port int, d Dial) (Reply, error) {
	protocol := "http"
	if d.Protocol == corev1.ProtocolUDP {
		protocol = "udp"
	}
	result := p.Client.Get().Namespace(namespace).Resource("pods").SubResource("proxy").
		Name(fmt.Sprintf("%s:%d", pod, port)).Suffix("dial").
		Param("host", d.Host).Param("port", strconv.Itoa(d.Port)).Param("protocol", protocol).Param("request", d.Request).
		Do(ctx)
	err := result.Error() // that of Raw has not the API server's words
	if why := unresolved(err); why != "" {
		return Reply{Errors: []string{why}}, nil
	}
	if err != nil {
		return Reply{}, err
	}
	text, err := result.Raw()
	if err != nil {
		return Reply{}, err
	}
	var reply Reply
	if err := json.Unmarshal(text, &reply); err != nil {
		return Reply{}, fmt.Errorf("read the answer of %s: %w", pod, err)
	}
	return reply, nil
}

// unresolved is what the pod says of a name that it cannot resolve, in netexec's words.
func unresolved(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusBadRequest || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		why, is := strings.CutPrefix(cause.Message, "host and/or port param are invalid. ")
		if is && cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return why
		}
	}
	return ""
}
