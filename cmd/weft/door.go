package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// contextFlags are the flags that [contextConfig] reads.
func contextFlags(f *pflag.FlagSet) {
	f.String("kubeconfig", "", userKubeconfigUsage)
	f.String("context", "", "context of the kubeconfig file; empty: its current one")
}

// contextConfig are the credentials and the namespace of a kubeconfig's context, as kubectl finds them. A mistake in
// what was read of the settings before is its error.
func contextConfig(s *settings) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.text("kubeconfig")
	overrides := &clientcmd.ConfigOverrides{CurrentContext: s.text("context")}
	overrides.Context.Namespace = s.text("namespace")
	if err := s.err(); err != nil {
		return nil, "", err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %q: %w; name a kubeconfig file", rules.ExplicitPath, err)
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// question is what weft observe is asked by the API server.
type question struct {
	resource string
	// namespace is that of the list; empty: all of them.
	namespace string
	// name is that of the one object that is asked for; empty: a list.
	name string
	// subresource is that of the object.
	subresource string
	query       url.Values
	// object is created, and the answer is that object as weft observe has filled it in; nil: nothing is created.
	object any
	// role is the ClusterRole that has the right, if no other role has.
	role string
}

// askDoor lists a resource of weft observe by the API server, of all namespaces where namespace is "". The error has
// the server's own words.
func askDoor(ctx context.Context, config *rest.Config, resource, namespace string) ([]byte, error) {
	return question{resource: resource, namespace: namespace}.ask(ctx, config)
}

// ask gives the answer as the API server has it. The error has the server's own words.
func (q question) ask(ctx context.Context, config *rest.Config) ([]byte, error) {
	request, err := q.request(config)
	if err != nil {
		return nil, err
	}
	result := request.SetHeader("Accept", "application/json").Do(ctx)
	text, _ := result.Raw()
	return text, q.failure(result.Error()) // not the other's error, which has no words
}

// askOne asks for a list, whose only item it reads into T.
func askOne[T any](ctx context.Context, config *rest.Config, q question) (text []byte, item *T, err error) {
	if text, err = q.ask(ctx, config); err != nil {
		return nil, nil, err
	}
	var list struct{ Items []T }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, nil, fmt.Errorf("read what the API server answers: %w", err)
	}
	if len(list.Items) != 1 {
		return nil, nil, fmt.Errorf("the API server answers with %d %s, and not with one", len(list.Items), q.resource)
	}
	return text, &list.Items[0], nil
}

func (q question) request(config *rest.Config) (*rest.Request, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	path := []string{"/apis/" + api.GroupVersion}
	if q.namespace != "" {
		path = append(path, "namespaces", q.namespace)
	}
	path = append(path, q.resource)
	if q.name != "" {
		path = append(path, q.name)
	}
	if q.subresource != "" {
		path = append(path, q.subresource)
	}
	request := client.RESTClient().Get()
	if q.object != nil {
		body, err := json.Marshal(q.object)
		if err != nil {
			return nil, err
		}
		request = client.RESTClient().Post().SetHeader("Content-Type", "application/json").Body(body)
	}
	request.AbsPath(path...)
	for key, values := range q.query {
		for _, value := range values {
			request.Param(key, value)
		}
	}
	return request, nil
}

// failure says what to do about an error of the API server.
func (q question) failure(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster has no %s in the API %s: install weft observe, of this version: %w", q.resource,
			api.GroupVersion, err)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("no weft observe answers: see `kubectl get apiservice %s.%s` and docs/operations.md: %w",
			api.Version, api.Group, err)
	case apierrors.IsForbidden(err) && q.role != "":
		binding := "clusterrolebinding NAME"
		if q.namespace != "" {
			binding = "rolebinding NAME --namespace=" + q.namespace
		}
		return fmt.Errorf("%w\nAn administrator gives the right: kubectl create %s --clusterrole=%s --user=USER", err,
			binding, q.role)
	case err != nil:
		return fmt.Errorf("ask for %s.%s: %w", q.resource, api.Group, err)
	}
	return nil
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

// writeYAMLAnswer writes what the API server has answered as YAML.
func writeYAMLAnswer(w io.Writer, text []byte) error {
	text, err := yaml.JSONToYAML(text)
	if err == nil {
		_, err = fmt.Fprintf(w, "---\n%s", text)
	}
	return err
}

// form writes an answer: its text, and what it says.
type form[T any] func(w screen, text []byte, answer T) error

// forms are those of an answer, by the values of -o.
type forms[T any] map[string]form[T]

// chosen is the form that -o names. Another one is a mistake of the settings.
func (f forms[T]) chosen(s *settings) form[T] {
	write, known := f[s.text("output")]
	if !known {
		s.errs = append(s.errs, fmt.Errorf("output: %q is none of \"text\", \"wide\", \"json\" and \"yaml\"",
			s.text("output")))
	}
	return write
}

// answerForms are those of the commands that ask weft observe. write writes text and wide.
func answerForms[T any](write func(w screen, answer T, wide bool) error) forms[T] {
	return forms[T]{
		"text": func(w screen, _ []byte, answer T) error { return write(w, answer, false) },
		"wide": func(w screen, _ []byte, answer T) error { return write(w, answer, true) },
		"json": func(w screen, text []byte, _ T) error { return writeJSONAnswer(w, text) },
		"yaml": func(w screen, text []byte, _ T) error { return writeYAMLAnswer(w, text) },
	}
}
