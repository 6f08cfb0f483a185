package observe

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// statusFresh is how old a status may be.
const statusFresh = 5 * time.Second

// statusPath is where the status of the network is listed. There is none of a namespace.
const statusPath = "/apis/" + api.GroupVersion + "/" + api.NetworkStatusResource

// networkStatus names nodes, and objects of all namespaces. So it is for those who have its right in the whole cluster.
func (h *handler) networkStatus(r *http.Request, who user.Info) (any, error) {
	if err := wholeList(r); err != nil {
		return nil, err
	}
	if err := h.demandList(r.Context(), who, api.NetworkStatusResource, "", api.NetworkStatusRole); err != nil {
		return nil, err
	}
	list, err := h.status(r.Context())
	if err != nil {
		slog.ErrorContext(r.Context(), "the status cannot be read", "error", err)
		return nil, apierrors.NewServiceUnavailable("the status cannot be read now; the log of weft observe says why")
	}
	if asTable(r) {
		return statusTable(list), nil
	}
	return list, nil
}

// watchedNodes are the Nodes that the door watches.
func (d *door) watchedNodes() (nodes []*corev1.Node) {
	for _, object := range d.nodes.GetStore().List() {
		if node, ok := object.(*corev1.Node); ok {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// certificates are those of the door's own keys.
func (c Config) certificates() (list []api.Certificate, err error) {
	for _, file := range []struct{ key, path string }{
		{"tunnel-certificate", c.Certificate}, {"tunnel-ca", c.CA},
	} {
		text, wrong := os.ReadFile(file.path)
		found := 0
		for wrong == nil {
			var block *pem.Block
			if block, text = pem.Decode(text); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" {
				continue
			}
			var parsed *x509.Certificate
			if parsed, wrong = x509.ParseCertificate(block.Bytes); wrong == nil {
				found++
				list = append(list, api.Certificate{Of: file.key, Subject: parsed.Subject.CommonName,
					Expires: metav1.NewTime(parsed.NotAfter)})
			}
		}
		if wrong == nil && found == 0 {
			wrong = errors.New("it has no certificate")
		}
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", file.key, file.path, wrong))
		}
	}
	return list, err
}
