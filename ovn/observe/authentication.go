package observe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/ovsdb/certificates"
)

// What the API server publishes of its front proxy.
const (
	authenticationNamespace = metav1.NamespaceSystem
	authenticationName      = "extension-apiserver-authentication"
	frontProxyCA            = "requestheader-client-ca-file"
	allowedNames            = "requestheader-allowed-names"
	clientCA                = "client-ca-file"
)

// frontProxy knows the API server by what it publishes, as long as that is current.
type frontProxy struct {
	client  kubernetes.Interface
	ca      *dynamiccertificates.ConfigMapCAController
	headers *headerrequest.RequestHeaderAuthRequestController
	users   authenticator.Request
}

func newFrontProxy(client kubernetes.Interface) (*frontProxy, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy", authenticationNamespace,
		authenticationName, frontProxyCA, client)
	if err != nil {
		return nil, err
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(authenticationName, authenticationNamespace, client,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", allowedNames)
	provide := func(value func() []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(value)
	}
	return &frontProxy{client: client, ca: ca, headers: headers, users: headerrequest.NewDynamicVerifyOptionsSecure(
		ca.VerifyOptions,
		provide(headers.AllowedClientNames), provide(headers.UsernameHeaders), provide(headers.UIDHeaders),
		provide(headers.GroupHeaders),
		provide(headers.ExtraHeaderPrefixes))}, nil
}

// load reads what is published now, and refuses what would let others in.
func (p *frontProxy) load(ctx context.Context) error {
	published, err := p.client.CoreV1().ConfigMaps(authenticationNamespace).Get(ctx, authenticationName,
		metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the ConfigMap %s/%s: %w", authenticationNamespace, authenticationName, err)
	}
	return errors.Join(fitFrontProxy(published), p.ca.RunOnce(ctx), p.headers.RunOnce(ctx))
}

// fitFrontProxy says why a cluster's front proxy cannot be known.
func fitFrontProxy(published *corev1.ConfigMap) error {
	own, names := published.Data[frontProxyCA], published.Data[allowedNames]
	switch {
	case own == "":
		return errors.New("the API server has no front proxy, and can ask no aggregated API: set " +
			"--requestheader-client-ca-file, --requestheader-username-headers, --proxy-client-cert-file and " +
			"--proxy-client-key-file")
	case (names == "" || names == "[]" || names == "null") && bytes.Contains([]byte(published.Data[clientCA]),
		bytes.TrimSpace([]byte(own))):
		return errors.New("every client of the API server could pose as its front proxy, since " +
			"--requestheader-client-ca-file is the clients' authority, too: set --requestheader-allowed-names")
	}
	return nil
}

// keep follows what is published until ctx is done.
func (p *frontProxy) keep(ctx context.Context) {
	go p.headers.Run(ctx, 1)
	p.ca.Run(ctx, 1)
}

// tlsConfig asks each connection for a certificate of the front proxy's authority, and shows the door's own.
func (p *frontProxy) tlsConfig(own func() (*certificates.Set, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		set, err := own()
		if err != nil {
			return nil, err
		}
		trusted, ok := p.ca.VerifyOptions()
		if !ok {
			return nil, errors.New("the front proxy's authority is not known")
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*set.Own},
			ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs:  trusted.Roots, SessionTicketsDisabled: true, NextProtos: []string{"h2", "http/1.1"}}, nil
	}}
}

// user is whom the API server names.
func (p *frontProxy) user(r *http.Request) (user.Info, error) {
	response, ok, err := p.users.AuthenticateRequest(r)
	if err != nil {
		return nil, err
	}
	if !ok || response.User.GetName() == "" {
		return nil, errors.New("the request names no user")
	}
	return response.User, nil
}

// right is what a user may do with a resource of this API: in a namespace, in all where that is empty, and with one
// object, all where name is empty.
type right struct{ verb, resource, subresource, namespace, name string }

// has asks the API server whether a user has a right.
func has(ctx context.Context, client kubernetes.Interface, who user.Info, to right) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range who.GetExtra() {
		extra[key] = values
	}
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: to.namespace, Verb: to.verb, Group: group,
				Version: version, Resource: to.resource, Subresource: to.subresource, Name: to.name},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask for the rights of %s: %w", who.GetName(), err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
