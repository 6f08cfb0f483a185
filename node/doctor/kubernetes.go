package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weftnet/weft/models/contract"
)

// apiAnswer is one answer of the API server.
type apiAnswer struct {
	Server string // its URL
	Status int
	Body   []byte
	// Date is the server's clock, in whole seconds; zero where it did not say.
	Date            time.Time
	Asked, Answered time.Time // by this node's clock
}

// apiReader asks the API server with the node's credentials.
type apiReader interface {
	Get(ctx context.Context, path string) (apiAnswer, error)
}

// apiServer is the API server that a kubeconfig names.
type apiServer struct{ kubeconfig string }

func (a apiServer) Get(ctx context.Context, path string) (apiAnswer, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	if err != nil {
		return apiAnswer{}, kubeconfigError{err}
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return apiAnswer{}, kubeconfigError{err}
	}
	server, err := a.url()
	if err != nil {
		return apiAnswer{}, kubeconfigError{err}
	}
	answer := apiAnswer{Server: server.String(), Asked: time.Now()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath(path).String(), nil)
	if err != nil {
		return answer, kubeconfigError{err}
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	answer.Status, answer.Answered = response.StatusCode, time.Now()
	answer.Date, _ = http.ParseTime(response.Header.Get("Date")) // zero says that there was none
	answer.Body, err = io.ReadAll(io.LimitReader(response.Body, 4<<20))
	return answer, err
}

// url is where the kubeconfig says that the API server is.
func (a apiServer) url() (*url.URL, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	return server, err
}

// kubeconfigError: nothing was asked.
type kubeconfigError struct{ error }

// checkAPIServer: kubelet, the agent and weft-cni are of no use without the API server.
func checkAPIServer(ctx context.Context, api apiReader) []Finding {
	const s = subject("api-server")
	answer, err := api.Get(ctx, "/version")
	var unusable kubeconfigError
	if errors.As(err, &unusable) {
		return s.failed("set kubeconfig to the file with kubelet's credentials; kubelet writes it when the node joins "+
			"the cluster", "kubeconfig: %v", err)
	}
	if err != nil {
		return s.failed(connectRemedy(err), "%s does not answer: %v", answer.Server, plain(err))
	}
	if answer.Status != http.StatusOK {
		return s.failed(statusRemedy(answer.Status), "%s answers /version with %d %s", answer.Server, answer.Status,
			http.StatusText(answer.Status))
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if json.Unmarshal(answer.Body, &version) != nil || version.GitVersion == "" {
		return s.failed("see what listens there: kubeconfig must name a Kubernetes API server",
			"%s answers, but not as an API server does", answer.Server)
	}
	return s.ok("%s runs %s and answered in %v", answer.Server, version.GitVersion,
		answer.Answered.Sub(answer.Asked).Round(time.Millisecond))
}

// plain leaves out what net/http says around an error, the URL and the method.
func plain(err error) error {
	var around *url.Error
	if errors.As(err, &around) {
		return around.Err
	}
	return err
}

// connectRemedy tells the kinds of failure apart that have different remedies.
func connectRemedy(err error) string {
	var unknownAuthority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var alert tls.AlertError
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &unknownAuthority):
		return "its certificate is of another authority than the one that is configured here; compare the CA files"
	case errors.As(err, &invalid):
		return "its certificate is expired or not valid yet; renew it, or correct the clock of this node"
	case errors.As(err, &host):
		return "its certificate is for other names; use one of them, or add this one to the certificate"
	case errors.As(err, &alert):
		return "it refuses this node's certificate; look at its expiry, its names and its authority"
	case errors.As(err, &dns):
		return "the name does not resolve; correct the name or this node's DNS servers"
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "nothing comes back: look at the route to it, and at firewalls on both sides and between"
	case strings.Contains(err.Error(), "refused"):
		return "the machine is there but nothing listens on that port; start it, or correct the address"
	}
	return "look at the address, the route to it and the firewalls between"
}

func statusRemedy(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "the credentials in kubeconfig are not accepted; join the node again, or use kubelet's"
	case http.StatusNotFound:
		return "let kubelet join the node, or correct node-name"
	}
	return "see the API server's own health"
}

// A clock that is further off than this is a warning, and a failure: Kubernetes' and OVN's own
// certificates are commonly made valid from five minutes before.
const (
	skewWarning = 10 * time.Second
	skewFailed  = 5 * time.Minute
)

// checkClock compares the node's clock with the API server's Date. That has whole seconds, and was set
// at some moment between question and answer.
func checkClock(ctx context.Context, api apiReader) []Finding {
	const s = subject("clock")
	const remedy = "start the time service (w32time, chrony, systemd-timesyncd) with the servers that the control " +
		"plane uses"
	answer, err := api.Get(ctx, "/version")
	if err != nil {
		return s.unknown("compare it with another machine's by hand", "there is no answer of the API server to compare with")
	}
	if answer.Date.IsZero() {
		return s.unknown("compare it with another machine's by hand", "the API server's answer has no Date")
	}
	skew := clockSkew(answer)
	side := "ahead of"
	if skew < 0 {
		side = "behind"
	}
	text := fmt.Sprintf("the node is %v %s the API server", skew.Abs().Round(time.Second), side)
	switch {
	case skew.Abs() >= skewFailed:
		return s.failed(remedy, "%s; certificates that are valid elsewhere are not valid here", text)
	case skew.Abs() >= skewWarning:
		return s.warning(remedy, "%s", text)
	}
	return s.ok("the node and the API server agree within %v", skew.Abs().Round(time.Second)+time.Second)
}

// clockSkew is how far this node's clock is ahead, 0 while that is within what the answer can tell.
func clockSkew(a apiAnswer) time.Duration {
	if earliest := a.Asked.Sub(a.Date.Add(time.Second)); earliest > 0 {
		return earliest
	}
	if latest := a.Answered.Sub(a.Date); latest < 0 {
		return latest
	}
	return 0
}

// checkNode: the Node must be there before the agent can say anything of it, and the controller must
// have given it a subnet before a pod can be attached.
func checkNode(ctx context.Context, api apiReader, config Config) []Finding {
	const s = subject("node-object")
	answer, err := api.Get(ctx, "/api/v1/nodes/"+url.PathEscape(config.NodeName))
	if err != nil {
		return s.unknown("", "there is no answer of the API server")
	}
	if answer.Status == http.StatusNotFound {
		return s.failed(statusRemedy(answer.Status), "there is no Node %s", config.NodeName)
	}
	var node struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			Addresses []struct{ Type, Address string } `json:"addresses"`
		} `json:"status"`
	}
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &node) != nil {
		return s.unknown(statusRemedy(answer.Status), "the API server answers %d to the question for Node %s", answer.Status,
			config.NodeName)
	}
	network, has, err := contract.Parse[contract.NodeNetwork](node.Metadata.Annotations, contract.NodeNetworkAnnotation)
	if err != nil {
		return s.failed("take the annotation away; weft controller writes it anew", "Node %s: %v", config.NodeName, err)
	}
	if !has {
		return s.warning("see that weft controller runs, and whether the Node has an Event NoPodSubnet or NoNodeID",
			"Node %s has no pod subnet from weft controller yet", config.NodeName)
	}
	return s.ok("Node %s has the pod subnets %v", config.NodeName, network.PodCIDRs)
}
