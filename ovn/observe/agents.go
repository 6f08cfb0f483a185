package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/hits"
)

// agentDialer opens streams of agents, by the names of their Nodes.
type agentDialer struct {
	dial hits.Dial
	// node is where the agent of a Node is met. It is false of a Node that there is not.
	node func(name string) (hits.Node, bool)
}

// open tells users why an agent is not reached. What its address says is for the log.
func (a agentDialer) open(ctx context.Context, name string) (net.Conn, error) {
	node, there := a.node(name)
	switch {
	case !there:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
	case node.Address == "":
		return nil, fmt.Errorf("the agent of node %s cannot be asked: %w", name, hits.ErrNoAddress)
	}
	conn, err := a.dial(ctx, node)
	if errors.Is(err, hits.ErrNoTarget) {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if err != nil {
		slog.ErrorContext(ctx, "an agent is not reached", telemetry.Object("Node", "", name), "error", err)
		return nil, fmt.Errorf("the agent of node %s is not reached; the log of weft observe says why", name)
	}
	return conn, nil
}

// podNamed is the pod that the API server has by a name now. It is listed, since the rights of a door are to list.
func podNamed(ctx context.Context, client kubernetes.Interface, namespace, name string) (*corev1.Pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	switch {
	case err != nil:
		return nil, fmt.Errorf("find pod %s/%s: %w", namespace, name, err)
	case len(list.Items) == 0:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	}
	return &list.Items[0], nil
}

// hasOwnNetwork says why no agent knows an interface of a pod, if that can be told from the pod.
func hasOwnNetwork(pod *corev1.Pod) error {
	switch {
	case pod.Spec.HostNetwork:
		return errors.New("it is in the network of its node and has no interface of its own")
	case pod.Spec.NodeName == "":
		return errors.New("it is on no node yet; see its events")
	}
	return nil
}

func referenceOf(pod *corev1.Pod) *contract.PodReference {
	return &contract.PodReference{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

// maxReply is how long a line of an agent may be, in bytes.
const maxReply = 4096

// exchange sends a request to an agent, and reads the line that it replies. What follows stays on the connection.
func exchange[Reply any](conn io.ReadWriter, request any) (said Reply, err error) {
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return said, fmt.Errorf("ask its agent: %w", err)
	}
	line, err := readLine(conn, maxReply)
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil {
		return said, fmt.Errorf("read what its agent answers: %w", err)
	}
	return said, nil
}

// readLine reads a line and nothing behind it.
func readLine(r io.Reader, most int) ([]byte, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < most; line = append(line, one[0]) {
		if _, err := io.ReadFull(r, one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
	}
	return nil, fmt.Errorf("its first line has more than %d bytes", most)
}

// refusedByAgent is what an agent says of a request that it refuses; nil where it says nothing.
func refusedByAgent(text string) error {
	if text == "" {
		return nil
	}
	return fmt.Errorf("its agent says: %.1000q", text)
}
