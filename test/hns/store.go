package hns

import (
	"crypto/rand"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// The kinds of objects.
const (
	kindNetwork      = "Network"
	kindEndpoint     = "Endpoint"
	kindNamespace    = "Namespace"
	kindLoadBalancer = "LoadBalancer"
	kindSdnRoute     = "SdnRoute"
)

// object is one of HNS's, of any kind.
type object interface{ guid() string }

func (n *Network) guid() string      { return n.ID }
func (e *Endpoint) guid() string     { return e.ID }
func (n *Namespace) guid() string    { return n.ID }
func (l *LoadBalancer) guid() string { return l.ID }

// byID returns the object of that GUID, nil where there is none.
func byID[O object](objects []O, id string) (found O) {
	if i := slices.IndexFunc(objects, func(o O) bool { return sameID(o.guid(), id) }); i >= 0 {
		found = objects[i]
	}
	return found
}

// without leaves the object of that GUID out.
func without[O object](objects []O, id string) []O {
	return slices.DeleteFunc(objects, func(o O) bool { return sameID(o.guid(), id) })
}

// objects are HNS's, with the rules that hold between them. They are what is kept.
type objects struct {
	Networks      []*Network
	Endpoints     endpoints
	Namespaces    []*Namespace
	LoadBalancers []*LoadBalancer
	Compartments  uint32 // the last number of a compartment
}

// forgetPods leaves what survives a boot: the networks, with their switches and extensions.
func (o *objects) forgetPods() {
	*o = objects{Networks: o.Networks, Compartments: hostCompartment}
}

func (o *objects) network(id string) *Network { return byID(o.Networks, id) }

func (o *objects) endpoint(id string) *Endpoint { return byID(o.Endpoints, id) }

func (o *objects) namespace(id string) *Namespace { return byID(o.Namespaces, id) }

// all yields the objects of a kind.
func (o *objects) all(kind string) iter.Seq[object] {
	return func(yield func(object) bool) {
		switch kind {
		case kindNetwork:
			each(o.Networks, yield)
		case kindEndpoint:
			each(o.Endpoints, yield)
		case kindNamespace:
			each(o.Namespaces, yield)
		case kindLoadBalancer:
			each(o.LoadBalancers, yield)
		}
	}
}

func each[O object](objects []O, yield func(object) bool) {
	for _, o := range objects {
		if !yield(o) {
			return
		}
	}
}

// find returns nil, and not a nil pointer, for what is not there.
func (o *objects) find(kind, id string) object {
	for found := range o.all(kind) {
		if sameID(found.guid(), id) {
			return found
		}
	}
	return nil
}

func notFound(kind string) Error {
	switch kind {
	case kindNetwork:
		return ErrNetworkNotFound
	case kindEndpoint:
		return ErrEndpointNotFound
	}
	return ErrElementNotFound
}

// remove deletes an object and what hangs on it.
func (o *objects) remove(kind, id string) Error {
	switch found := o.find(kind, id).(type) {
	case *Network:
		o.removeNetwork(found)
	case *Endpoint:
		o.removeEndpoint(found)
	case *Namespace:
		o.removeNamespace(found)
	case *LoadBalancer:
		o.LoadBalancers = without(o.LoadBalancers, found.ID)
	default:
		return notFound(kind)
	}
	return 0
}

// removeNetwork deletes a network with its endpoints.
func (o *objects) removeNetwork(n *Network) {
	for _, e := range slices.Clone(o.Endpoints) {
		if sameID(e.HostComputeNetwork, n.ID) {
			o.removeEndpoint(e)
		}
	}
	o.Networks = without(o.Networks, n.ID)
}

// addEndpoint takes an endpoint of a network. It is in no namespace yet; one that it names must be there.
func (o *objects) addEndpoint(id string, e *Endpoint) Error {
	n := o.network(e.HostComputeNetwork)
	if n == nil {
		return ErrNetworkNotFound
	}
	e.ID, e.HostComputeNetwork = newID(id, e.ID), n.ID
	if err := o.Endpoints.check(n, e); err != 0 {
		return err
	}
	if e.MacAddress == "" {
		tail := make([]byte, 3)
		_, _ = rand.Read(tail) // never fails
		e.MacAddress = fmt.Sprintf("00-15-5D-%02X-%02X-%02X", tail[0], tail[1], tail[2])
	}
	if _, err := net.ParseMAC(e.MacAddress); err != nil {
		return ErrInvalidEndpoint
	}
	e.MacAddress, e.SchemaVersion = formatMAC(e.MacAddress), schemaVersion
	if e.HostComputeNamespace != "" && o.namespace(e.HostComputeNamespace) == nil {
		return ErrElementNotFound
	}
	e.HostComputeNamespace = ""
	o.Endpoints = append(o.Endpoints, e)
	return 0
}

// removeEndpoint deletes an endpoint, also from its namespace and from load balancers.
func (o *objects) removeEndpoint(e *Endpoint) {
	if space := o.namespace(e.HostComputeNamespace); space != nil {
		o.detach(space, e)
	}
	for _, l := range o.LoadBalancers {
		l.HostComputeEndpoints = slices.DeleteFunc(l.HostComputeEndpoints, func(id string) bool { return sameID(id, e.ID) })
	}
	o.Endpoints = without(o.Endpoints, e.ID)
}

func (o *objects) addNamespace(id, kind, netns string) (string, Error) {
	if o.namespace(id) != nil {
		return "", ErrObjectExists
	}
	o.Compartments++
	o.Namespaces = append(o.Namespaces, &Namespace{
		ID: id, NamespaceID: o.Compartments, Type: kind, Resources: []Resource{}, SchemaVersion: schemaVersion, Netns: netns,
	})
	return id, 0
}

// removeNamespace deletes a namespace and leaves its endpoints behind, detached.
func (o *objects) removeNamespace(n *Namespace) {
	for _, e := range o.in(n) {
		e.HostComputeNamespace = ""
	}
	o.Namespaces = without(o.Namespaces, n.ID)
}

// in returns the endpoints that are in a namespace.
func (o *objects) in(n *Namespace) []*Endpoint {
	var found []*Endpoint
	for _, id := range n.endpoints() {
		if e := o.endpoint(id); e != nil {
			found = append(found, e)
		}
	}
	return found
}

// attach puts an endpoint into a namespace.
func (o *objects) attach(n *Namespace, e *Endpoint) Error {
	switch {
	case sameID(e.HostComputeNamespace, n.ID):
		return ErrEndpointAttached
	case e.HostComputeNamespace != "":
		return ErrEndpointNamespaceExists
	}
	e.HostComputeNamespace = n.ID
	n.Resources = append(n.Resources, Resource{Type: kindEndpoint, Data: ResourceData{e.ID}})
	return 0
}

func (o *objects) detach(n *Namespace, e *Endpoint) {
	e.HostComputeNamespace = ""
	n.Resources = slices.DeleteFunc(n.Resources, func(r Resource) bool {
		return r.Type == kindEndpoint && sameID(r.Data.ID, e.ID)
	})
}

func (o *objects) addLoadBalancer(id string, l *LoadBalancer) (string, Error) {
	l.ID, l.SchemaVersion = newID(id, l.ID), schemaVersion
	for i, endpoint := range l.HostComputeEndpoints {
		if o.endpoint(endpoint) == nil {
			return "", ErrEndpointNotFound
		}
		l.HostComputeEndpoints[i] = strings.ToUpper(endpoint)
	}
	o.LoadBalancers = append(o.LoadBalancers, l)
	return l.ID, 0
}

// newID is the GUID of an object to be made: the caller's argument, that of its settings, or a new one.
func newID(argument, settings string) string {
	for _, id := range []string{argument, settings} {
		if id = canonicalID(id); strings.Trim(id, "0-") != "" {
			return id
		}
	}
	return canonicalID(uuid.NewString())
}
