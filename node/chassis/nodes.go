//go:build linux

package chassis

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/telemetry"
)

// node is one that runs no ovn-controller of its own.
type node struct {
	name    string
	uid     types.UID
	address string // of its agent, HOST:PORT
	zone    string // as the controller has decided, "" in a cluster without zones
	zoned   bool   // whether the controller has told that
}

// hostedNode reads a Node; ok is false for one that runs its own ovn-controller, or whose agent has
// not said yet.
func hostedNode(object *corev1.Node) (n node, ok bool, err error) {
	facts, present, err := contract.Parse[contract.NodeFacts](object.Annotations, contract.NodeFactsAnnotation)
	if err != nil || !present || facts.Hosted == nil {
		return node{}, false, err
	}
	var status []string
	for _, address := range object.Status.Addresses {
		status = append(status, address.Address)
	}
	end, err := agentEnd(facts.Hosted.Address, status, facts.Addresses)
	if err != nil {
		return node{}, false, fmt.Errorf("annotation %s: hosted address: %w", contract.NodeFactsAnnotation, err)
	}
	n = node{name: object.Name, uid: object.UID, address: end.String()}
	n.zone, n.zoned = zoneOf(object)
	return n, true, nil
}

// zoneOf reads the zone that the controller has decided for a node. told is false until it has, and also if that
// cannot be read: then the controller complains (Event BadNodeNetwork) and writes it again.
func zoneOf(object *corev1.Node) (zone string, told bool) {
	text, told := object.Annotations[contract.NodeNetworkAnnotation]
	if !told {
		return "", false
	}
	var network struct {
		Zone string `json:"zone"`
	}
	if json.Unmarshal([]byte(text), &network) != nil {
		return "", false
	}
	return network.Zone, true
}

// agentEnd says where an agent may be met; agents of tests are on loopback.
var agentEnd = contract.AgentEnd

// reading is what was found in a Node.
type reading struct {
	from *corev1.Node // as in the informer's store, where objects are replaced and not changed
	node
	ok  bool
	err error
}

// readNodes reads Nodes, except for those that have not changed since before.
func readNodes(objects []any, before map[string]reading) map[string]reading {
	now := make(map[string]reading, len(objects))
	for _, object := range objects {
		full, ok := object.(*corev1.Node)
		if !ok {
			continue
		}
		r := before[full.Name]
		if r.from != full {
			r = reading{from: full}
			r.node, r.ok, r.err = hostedNode(full)
		}
		now[full.Name] = r
	}
	return now
}

// keepFacts drops what this program does not read of a Node.
func keepFacts(object any) (any, error) {
	full, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	kept := &corev1.Node{}
	kept.Name, kept.UID, kept.ResourceVersion, kept.CreationTimestamp = full.Name, full.UID, full.ResourceVersion,
		full.CreationTimestamp
	for _, name := range []string{contract.NodeFactsAnnotation, contract.NodeNetworkAnnotation} {
		if text, ok := full.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, text)
		}
	}
	kept.Status.Addresses = full.Status.Addresses // see claimed
	return kept, nil
}

// saysTheSame says whether two versions of a Node have the same annotations, as far as they were kept.
func saysTheSame(before, after any) bool {
	a, ok := before.(*corev1.Node)
	b, too := after.(*corev1.Node)
	return ok && too && maps.Equal(a.Annotations, b.Annotations)
}

// claimed is the node other than name that has an address by its facts or its status, "" if there is none. Among
// those that say so, the one that came first has it.
func claimed(objects []any, name string, address netip.Addr) string {
	var owner *corev1.Node
	for _, object := range objects {
		full, ok := object.(*corev1.Node)
		if !ok {
			continue
		}
		facts, _, err := contract.Parse[contract.NodeFacts](full.Annotations, contract.NodeFactsAnnotation)
		inStatus := slices.ContainsFunc(full.Status.Addresses, func(a corev1.NodeAddress) bool {
			return a.Address == address.String()
		})
		if !inStatus && (err != nil || !slices.Contains(facts.Addresses, address)) {
			continue
		}
		if owner == nil || full.CreationTimestamp.Before(&owner.CreationTimestamp) ||
			full.CreationTimestamp.Equal(&owner.CreationTimestamp) && full.Name < owner.Name {
			owner = full
		}
	}
	if owner == nil || owner.Name == name {
		return ""
	}
	return owner.Name
}

// misread remembers what was said of nodes that cannot be read, so that it is said once.
type misread struct {
	mu   sync.Mutex
	said map[string]string
}

// say logs and reports a node's fault, nil if there is none.
func (m *misread) say(object *corev1.Node, err error, report func(node, *reasons.Event, string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.said, object.Name)
		return
	}
	if m.said[object.Name] == err.Error() {
		return
	}
	if m.said == nil {
		m.said = map[string]string{}
	}
	m.said[object.Name] = err.Error()
	slog.Error("what a node says of its agent is not used", telemetry.Object("Node", "", object.Name), "error", err)
	report(node{name: object.Name, uid: object.UID}, chassisFactsInvalid, err.Error())
}

// forget drops what was said of Nodes that are gone.
func (m *misread) forget(there map[string]reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.said, func(name, _ string) bool {
		_, is := there[name]
		return !is
	})
}
