package ovn

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/ovn/settings"
)

func TestAnAPIServerThatIsTooOldIsRefused(t *testing.T) {
	const needs = "and Weft needs 1.31 or later: upgrade Kubernetes"
	for _, test := range []struct{ name, answer, wrong string }{
		{"the least", `{"major": "1", "minor": "31", "gitVersion": "v1.31.0"}`, ""},
		{"a later one of a vendor's", `{"major": "1", "minor": "33+", "gitVersion": "v1.33.1-eks-a1b2c3"}`, ""},
		{"the one after 1.99", `{"gitVersion": "v2.0.0"}`, ""},
		{"one before", `{"major": "1", "minor": "30", "gitVersion": "v1.30.14"}`, "the API server is Kubernetes v1.30.14, " +
			needs},
		{"one before the least", `{"gitVersion": "v1.31.0-beta.0"}`, ""}, // it knows all that 1.31 does
		{"a number that is no text's order", `{"gitVersion": "v1.9.11"}`, "v1.9.11, " + needs},
		{"none", `{"gitVersion": ""}`, `the API server has the version ""`},
		{"no API server", `<html>`, `answers /version with "<html>"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkKubernetes([]byte(test.answer))
			if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
				t.Errorf("it says %v, want %q", err, test.wrong)
			}
		})
	}
}

// TestTheControllerEndsBeforeAnOldAPIServer: one that is away at first is asked again, and no Northbound is waited for.
func TestTheControllerEndsBeforeAnOldAPIServer(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" || asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"gitVersion": "v1.29.3"}`)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = awaitKubernetes(ctx, client.Discovery().RESTClient(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "Kubernetes v1.29.3") || asked.Load() < 2 {
		t.Errorf("after %d questions it says %v", asked.Load(), err)
	}
	cancel()
	if err := awaitKubernetes(ctx, client.Discovery().RESTClient(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it goes on although it is to end")
	}

	kubeconfig := t.TempDir() + "/kubeconfig"
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}],
		"clusters": [{"name": "c", "cluster": {"server": %q}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config := settings.DefaultConfig()
	config.Kubeconfig, config.MetricsAddress = kubeconfig, ""
	config.Northbound = []string{"unix:" + t.TempDir() + "/none"} // which it would wait for
	config.PodCIDRs, config.ServiceCIDRs = []string{"10.244.0.0/16"}, []string{"10.96.0.0/16"}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Run(ctx, config); err == nil || !strings.Contains(err.Error(), "Kubernetes v1.29.3") {
		t.Errorf("the controller ends with %v", err)
	}
}
