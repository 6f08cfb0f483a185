package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

// ClusterStatus is what Kubernetes says about the cluster.
type ClusterStatus struct {
	// Nodes maps a registered node to why it is not Ready, "" if it is.
	Nodes map[string]string
	// DNS counts the replicas of CoreDNS that are available, DNSWanted those that should be.
	DNS, DNSWanted int
}

// notReported is why a node is not Ready whose kubelet has said nothing of it: its Node is somebody else's.
const notReported = "has not reported yet"

// clusterClient asks the lab's API server as its administrator.
type clusterClient struct {
	lab  *Lab
	http *http.Client
}

func newClusterClient(l *Lab) (*clusterClient, error) {
	cert, err := tls.LoadX509KeyPair(l.files.pki("admin.crt"), l.files.pki("admin.key"))
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(l.files.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &clusterClient{l, &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext:     l.Dial,
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}},
	}}}, nil
}

func (c *clusterClient) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, newAddresses(c.lab.Config).apiServer()+path, nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// status asks for nodes and CoreDNS.
func (c *clusterClient) status(ctx context.Context) (ClusterStatus, error) {
	status := ClusterStatus{Nodes: map[string]string{}}
	var nodes struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
	}
	if err := c.get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return status, err
	}
	for _, n := range nodes.Items {
		why := notReported
		for _, condition := range n.Status.Conditions {
			if condition.Type == "Ready" {
				why = condition.Message
				if condition.Status == "True" {
					why = ""
				}
			}
		}
		status.Nodes[n.Metadata.Name] = why
	}
	var dns struct {
		Spec   struct{ Replicas int }
		Status struct{ AvailableReplicas int }
	}
	if err := c.get(ctx, "/apis/apps/v1/namespaces/kube-system/deployments/coredns", &dns); err != nil {
		return status, err
	}
	status.DNS, status.DNSWanted = dns.Status.AvailableReplicas, dns.Spec.Replicas
	return status, nil
}
