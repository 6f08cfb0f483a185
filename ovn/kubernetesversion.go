package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	info "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// MinimumKubernetes is the least version of the API server. 1.30 has ValidatingAdmissionPolicy in v1, and 1.31 the
// functions for addresses (isIP, cidr) in the rules of new objects; an API server takes these a release after it knows
// them, so that it can go back.
const MinimumKubernetes = "1.31"

// awaitKubernetes returns when the API server has said that it is new enough, or that it is not, or when ctx is done.
func awaitKubernetes(ctx context.Context, api rest.Interface, log *slog.Logger) error {
	const pause, timeout = time.Second, 10 * time.Second
	for said := ""; ; {
		body, err := api.Get().AbsPath("/version").Timeout(timeout).DoRaw(ctx)
		if err == nil {
			return checkKubernetes(body)
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			log.Warn("ask the API server for its version", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// checkKubernetes judges an answer to /version.
func checkKubernetes(body []byte) error {
	var said info.Info
	if err := json.Unmarshal(body, &said); err != nil {
		return fmt.Errorf("kubeconfig: what it names answers /version with %q, which is no API server's answer: %w", body,
			err)
	}
	found, err := version.ParseGeneric(said.GitVersion)
	if err != nil {
		return fmt.Errorf("kubeconfig: the API server has the version %q: %w", said.GitVersion, err)
	}
	if !found.AtLeast(version.MustParseGeneric(MinimumKubernetes)) {
		return fmt.Errorf("the API server is Kubernetes %s, and Weft needs %s or later: upgrade Kubernetes", said.GitVersion,
			MinimumKubernetes)
	}
	return nil
}
