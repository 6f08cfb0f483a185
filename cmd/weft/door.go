package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// contextConfig are the credentials and the namespace of a kubeconfig's context, as kubectl finds them.
func contextConfig(s *settings) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.text("kubeconfig")
	overrides := &clientcmd.ConfigOverrides{CurrentContext: s.text("context")}
	overrides.Context.Namespace = s.text("namespace")
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %q: %w; name a kubeconfig file", rules.ExplicitPath, err)
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// askDoor lists a resource of weft observe by the API server, of all namespaces where namespace is "". The error has
// the server's own words.
func askDoor(ctx context.Context, config *rest.Config, resource, namespace string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	path := []string{"/apis/" + api.GroupVersion, resource}
	if namespace != "" {
		path = []string{"/apis/" + api.GroupVersion, "namespaces", namespace, resource}
	}
	result := client.RESTClient().Get().AbsPath(path...).SetHeader("Accept", "application/json").Do(ctx)
	text, _ := result.Raw()
	switch err = result.Error(); { // not the other's, which has no words
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster has no %s in the API %s: install weft observe, of this version: %w", resource,
			api.GroupVersion, err)
	case apierrors.IsServiceUnavailable(err):
		return nil, fmt.Errorf("no weft observe answers: see `kubectl get apiservice %s.%s` and docs/operations.md: %w",
			api.Version, api.Group, err)
	case err != nil:
		return nil, fmt.Errorf("list %s.%s: %w", resource, api.Group, err)
	}
	return text, nil
}

// askDoorAs is askDoor of a resource whose right a ClusterRole gives: who lacks the right is told how to get it.
func askDoorAs(ctx context.Context, config *rest.Config, resource, namespace, role string) ([]byte, error) {
	text, err := askDoor(ctx, config, resource, namespace)
	if !apierrors.IsForbidden(err) {
		return text, err
	}
	binding := "clusterrolebinding NAME"
	if namespace != "" {
		binding = "rolebinding NAME --namespace=" + namespace
	}
	return nil, fmt.Errorf("%w\nAn administrator gives the right: kubectl create %s --clusterrole=%s --user=USER", err,
		binding, role)
}

// writeJSONAnswer writes what the API server has answered.
func writeJSONAnswer(w io.Writer, text []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimSpace(text), "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, indented.String())
	return err
}
