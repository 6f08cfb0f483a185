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
	return answered(client.RESTClient().Get().AbsPath(pathAtDoor(resource, namespace)...).SetHeader("Accept",
		"application/json").Do(ctx), "list", resource)
}

// createAtDoor has weft observe answer an object by the API server; "" is no namespace.
func createAtDoor(ctx context.Context, config *rest.Config, resource, namespace string, object any) ([]byte, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return answered(client.RESTClient().Post().AbsPath(pathAtDoor(resource, namespace)...).SetHeader("Accept",
		"application/json").SetHeader("Content-Type", "application/json").Body(body).Do(ctx), "create", resource)
}

// pathAtDoor is that of a resource of weft observe.
func pathAtDoor(resource, namespace string) []string {
	if namespace == "" {
		return []string{"/apis/" + api.GroupVersion, resource}
	}
	return []string{"/apis/" + api.GroupVersion, "namespaces", namespace, resource}
}

// answered is what weft observe answers, or why it does not.
func answered(result rest.Result, verb, resource string) ([]byte, error) {
	text, _ := result.Raw()
	switch err := result.Error(); { // not the other's, which has no words
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster has no %s in the API %s: install weft observe, of this version: %w", resource,
			api.GroupVersion, err)
	case apierrors.IsServiceUnavailable(err):
		return nil, fmt.Errorf("no weft observe answers: see `kubectl get apiservice %s.%s` and docs/operations.md: %w",
			api.Version, api.Group, err)
	case err != nil:
		return nil, fmt.Errorf("%s %s.%s: %w", verb, resource, api.Group, err)
	}
	return text, nil
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
