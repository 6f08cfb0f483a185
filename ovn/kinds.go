package ovn

import (
	"strings"

	"github.com/weftnet/weft/ovsdb"
)

// kind is a kind of Kubernetes object that the controller watches.
type kind uint8

const (
	nodeKind kind = iota
	podKind
	serviceKind
	sliceKind
	namespaceKind
	egressKind
	poolKind
	serviceCIDRKind
	resolvedKind
	networkPolicyKind
	clusterPolicyKind
	adminPolicyKind
	baselinePolicyKind
	kinds // their number

	// topologyKind is no object: it stands for what exists once.
	topologyKind
	// gatewayKind is no object: it stands for the gateway that nodes share.
	gatewayKind
	// overdueKind is a node that has waited long enough for what somebody else should do.
	overdueKind
	// addresslessKind is a Service, with its UID, that has waited long enough for somebody to give it addresses.
	addresslessKind
	// egressNodesKind is no object: it stands for what EgressIPs share.
	egressNodesKind
	// carrierKind is an EgressIP whose addresses are on another chassis now, which is what there is to be got.
	carrierKind
	// aliveKind is a node whose port that shows that it lives is on another chassis now.
	aliveKind
	// aliveNodesKind is no object: it stands for all these ports.
	aliveNodesKind
	// countKind is an EgressIP whose status shall have its number of pods.
	countKind
	// domainKind is a domain name that policies name.
	domainKind
	// instantKind is no object: it says that time has passed.
	instantKind
	// selectionKind are pods that policies ask for, by their selection's text.
	selectionKind
	// nodeSetKind are nodes that policies ask for, by their selector.
	nodeSetKind
	// policiesKind is no object: it stands for what all policies share.
	policiesKind
	// flushKind is a Service with connections to endpoints that are gone, which are to be flushed again.
	flushKind
	// lateFlushKind is the same, a second time.
	lateFlushKind
	// rowsKind is an owner, by its name, whose rows are to be made again though nothing has changed.
	rowsKind
)

// flushKinds are those of flushPauses.
var flushKinds = [len(flushPauses)]kind{flushKind, lateFlushKind}

func (k kind) String() string {
	return [...]string{nodeKind: "Node", podKind: "Pod", serviceKind: "Service", sliceKind: "EndpointSlice",
		namespaceKind: "Namespace", egressKind: "EgressIP", poolKind: "AddressPool", serviceCIDRKind: "ServiceCIDR", topologyKind: "Cluster", gatewayKind: "Gateway", overdueKind: "overdue Node",
		addresslessKind: "Service without addresses",
		egressNodesKind: "Egress", carrierKind: "carrier of EgressIP", aliveKind: "life of Node", aliveNodesKind: "Alive", countKind: "pods of EgressIP",
		resolvedKind: "ResolvedNames", domainKind: "DomainName", instantKind: "instant",
		networkPolicyKind: "NetworkPolicy", clusterPolicyKind: "ClusterNetworkPolicy", adminPolicyKind: "AdminNetworkPolicy", baselinePolicyKind: "BaselineAdminNetworkPolicy",
		selectionKind: "Pods", nodeSetKind: "Nodes", policiesKind: "Policies", flushKind: "flush of Service", lateFlushKind: "late flush of Service",
		rowsKind: "rows"}[k]
}

// objectKey names an object: namespace/name, or a node's name.
type objectKey struct {
	kind kind
	name string
}

// again is the key by which an owner's rows are made again that were refused, or changed by another hand. An event of an
// object whose status Weft writes may be of that status alone, and does not have them made again.
func again(owner ovsdb.Owner, k objectKey) objectKey {
	switch k.kind {
	case egressKind, networkPolicyKind, clusterPolicyKind, adminPolicyKind, baselinePolicyKind:
		return objectKey{rowsKind, string(owner)}
	}
	return k
}

// ownerKey names the object that a row's owner stands for; ok is false for owners that this version of
// weft does not know.
func ownerKey(owner ovsdb.Owner) (k objectKey, ok bool) {
	switch owner {
	case clusterOwner:
		return objectKey{kind: topologyKind}, true
	case gatewayOwner:
		return objectKey{kind: gatewayKind}, true
	case egressNodesOwner:
		return objectKey{kind: egressNodesKind}, true
	case aliveOwner:
		return objectKey{kind: aliveNodesKind}, true
	case policiesOwner:
		return objectKey{kind: policiesKind}, true
	}
	word, name, _ := strings.Cut(string(owner), "/")
	for _, kind := range []kind{nodeKind, podKind, serviceKind, egressKind, domainKind,
		networkPolicyKind, clusterPolicyKind, adminPolicyKind, baselinePolicyKind, selectionKind, nodeSetKind} {
		if kind.String() == word {
			return objectKey{kind, name}, true
		}
	}
	return objectKey{}, false
}
