package ovn

import (
	"fmt"
	"strings"
	"time"

	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// event is what is to be looked at: an [objectKey] of an object that may have changed, or a [signal].
type event interface{ fmt.Stringer }

// signal is an event that is no object's. Most signals have the name of what they are about.
type signal struct {
	what signalKind
	name string
}

func (s signal) String() string { return strings.TrimSpace(signalNames[s.what] + " " + s.name) }

// signalKind says what a signal asks for.
type signalKind uint8

const (
	// topologySignal asks for the rows that exist once in a cluster.
	topologySignal signalKind = iota
	// sharedGatewaySignal asks for the rows of the gateway that nodes share.
	sharedGatewaySignal
	// egressNodesSignal asks for the rows that all EgressIPs share.
	egressNodesSignal
	// livenessPortsSignal asks for the rows of the ports that show which nodes live.
	livenessPortsSignal
	// policiesSignal asks for the rows that all policies share.
	policiesSignal
	// domainSignal asks for the rows of a domain name that policies name.
	domainSignal
	// selectionSignal ends the time in which the sets of a selection linger.
	selectionSignal
	// nodeSetSignal ends the time in which a set of nodes lingers.
	nodeSetSignal
	// rowsSignal asks for the rows of an owner although nothing has changed.
	rowsSignal
	// subnetsOverdueSignal says that a node has waited long enough for its subnets.
	subnetsOverdueSignal
	// addressesOverdueSignal says that a Service, named with its UID, has waited long enough for addresses.
	addressesOverdueSignal
	// egressHostingSignal says that another chassis than before has the addresses of an EgressIP.
	egressHostingSignal
	// livenessSignal says that another chassis than before has the port that shows whether a node lives.
	livenessSignal
	// countSignal has the status of an EgressIP tell its number of pods.
	countSignal
	// instantSignal says that time has passed.
	instantSignal
	// flushSignal has connections of a Service to endpoints that are gone flushed again.
	flushSignal
	// lateFlushSignal does the same a second time.
	lateFlushSignal
)

var signalNames = [...]string{
	topologySignal: "Cluster", sharedGatewaySignal: "Gateway", egressNodesSignal: "Egress",
	livenessPortsSignal: "Alive", policiesSignal: "Policies", domainSignal: "DomainName", selectionSignal: "Pods",
	nodeSetSignal: "Nodes", rowsSignal: "rows of", subnetsOverdueSignal: "subnets overdue of Node",
	addressesOverdueSignal: "addresses overdue of Service", egressHostingSignal: "hosting chassis of EgressIP",
	livenessSignal: "liveness of Node", countSignal: "pods of EgressIP", instantSignal: "instant",
	flushSignal: "flush of Service", lateFlushSignal: "late flush of Service",
}

// flushPauses are the times for which paths to endpoints that have gone are hidden before the nodes are shown them
// again, and for which they are shown, in the first round and in the second. They are long enough for Open vSwitch to
// have dropped its cached flows, and for ovn-northd and ovn-controller to have seen both. In the second round they are
// long enough also where these are slow.
var flushPauses = [2]time.Duration{time.Second, 5 * time.Second}

// flushSignals are those of flushPauses.
var flushSignals = [len(flushPauses)]signalKind{flushSignal, lateFlushSignal}

// patience is how long something that somebody else will do may take before it is a problem.
const patience = 10 * time.Second

// balancerPatience is how long a cloud may take to give a Service addresses. After that the Service is told that
// nobody does.
const balancerPatience = time.Minute

// wait is how long after the translation expects an event it is to be given it.
func wait(e event) time.Duration {
	if s, ok := e.(signal); ok {
		switch s.what {
		case flushSignal:
			return flushPauses[0]
		case lateFlushSignal:
			return flushPauses[1]
		case addressesOverdueSignal:
			return balancerPatience
		}
	}
	return patience
}

// again is the event by which an owner's rows are made again that were refused, or changed by another hand. An event
// of an object whose status Weft writes may be of that status alone, and does not have them made again.
func again(owner ovsdb.Owner, e event) event {
	if k, ok := e.(objects.Key); ok {
		switch k.Kind {
		case objects.EgressKind, objects.NetworkPolicyKind,
			objects.ClusterPolicyKind, objects.AdminPolicyKind, objects.BaselinePolicyKind:
			return signal{rowsSignal, string(owner)}
		}
	}
	return e
}

// ownerEvent is the event that asks for an owner's rows. It is nil for owners that this version of Weft does not know.
func ownerEvent(owner ovsdb.Owner) event {
	switch owner {
	case northbound.ClusterOwner:
		return signal{what: topologySignal}
	case northbound.GatewayOwner:
		return signal{what: sharedGatewaySignal}
	case northbound.EgressNodesOwner:
		return signal{what: egressNodesSignal}
	case northbound.LivenessOwner:
		return signal{what: livenessPortsSignal}
	case northbound.PoliciesOwner:
		return signal{what: policiesSignal}
	}
	word, name, _ := strings.Cut(string(owner), "/")
	for _, what := range []signalKind{domainSignal, selectionSignal, nodeSetSignal} {
		if signalNames[what] == word {
			return signal{what, name}
		}
	}
	if k, ok := ownerKey(owner); ok {
		return k
	}
	return nil
}

// ownerKey names the object that a row's owner stands for. It is false for owners that are no object's.
func ownerKey(owner ovsdb.Owner) (k objects.Key, ok bool) {
	word, name, _ := strings.Cut(string(owner), "/")
	for _, kind := range []objects.Kind{objects.NodeKind, objects.PodKind, objects.ServiceKind, objects.EgressKind,
		objects.NetworkPolicyKind, objects.ClusterPolicyKind, objects.AdminPolicyKind, objects.BaselinePolicyKind} {
		if kind.String() == word {
			return objects.Key{Kind: kind, Name: name}, true
		}
	}
	return objects.Key{Kind: objects.Kinds}, false
}
