package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Offline is what the Northbound would hold for objects, without any cluster.
type Offline struct {
	Changes []ovsdb.Change
	// Pods are those that have a port, by namespace/name.
	Pods map[string]OfflinePod
	// Problems are what the objects' owners would be told, in the order of their texts.
	Problems []objects.Problem
}

// OfflinePod is where a pod would be.
type OfflinePod struct {
	Port      string // of its logical switch
	Addresses []netip.Addr
}

// offlineNode has the pods that are on none.
const offlineNode = "weft-offline"

// Translate does what a controller would do with objects of the kinds that it watches; it needs no more of
// them than a manifest has. Pods that are on no node, and nodes without subnets, get some; a namespace that
// only others name is there, too. Objects of kinds that it does not watch are an error.
func Translate(config settings.Config, given []runtime.Object) (*Offline, error) {
	s, err := config.Settings()
	if err != nil {
		return nil, err
	}
	s.Allocate = true
	all := map[part.Event]any{}
	for _, o := range withNamespaces(given) {
		k, trimmed, err := offlineObject(o.DeepCopyObject())
		if err != nil {
			return nil, err
		}
		if _, twice := all[k]; twice {
			return nil, fmt.Errorf("%s %s: is there twice; remove one", k.Kind, k.Name)
		}
		all[k] = trimmed
	}
	if len(all) > 0 {
		k, node, err := offlineObject(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: offlineNode}})
		if err != nil {
			return nil, err
		}
		all[k] = node
	}
	c := newCluster(s)
	c.begin(records.Records{}, slices.Collect(maps.Keys(all)), func(e part.Event) any { return all[e] })
	offline := &Offline{Changes: c.takeEverything(), Pods: map[string]OfflinePod{}}
	for name, p := range c.pods.All() {
		if len(p.Addresses()) > 0 {
			offline.Pods[name] = OfflinePod{contract.PodPort(p.Object().Namespace, p.Object().Name),
				contract.Addrs(p.Addresses())}
		}
	}
	offline.Problems = c.TakeProblems()
	slices.SortFunc(offline.Problems, func(a, b objects.Problem) int { return strings.Compare(a.String(), b.String()) })
	return offline, nil
}

// offlineObject is an object as the API server would have completed it, and then trimmed.
func offlineObject(o runtime.Object) (k objects.Key, trimmed any, err error) {
	meta, ok := o.(metav1.Object)
	if !ok {
		return k, nil, fmt.Errorf("%T has no metadata", o)
	}
	switch o := o.(type) {
	case *corev1.Node:
		k.Kind = objects.NodeKind
	case *corev1.Pod:
		k.Kind = objects.PodKind
		if o.Spec.NodeName == "" {
			o.Spec.NodeName = offlineNode
		}
	case *corev1.Namespace:
		k.Kind = objects.NamespaceKind
		metav1.SetMetaDataLabel(&o.ObjectMeta, corev1.LabelMetadataName, o.Name)
	case *networkingv1.NetworkPolicy:
		k.Kind = objects.NetworkPolicyKind
	default:
		if k.Kind, ok = clusterWide(o); !ok {
			return k, nil, fmt.Errorf("%s %s: is of a kind that policies do not depend on",
				o.GetObjectKind().GroupVersionKind().Kind, meta.GetName())
		}
		return offlineCustom(o, meta, k.Kind)
	}
	return offlineTrim(o, meta, k)
}

// offlineCustom is an object of a kind that the controller watches as it comes.
func offlineCustom(o runtime.Object, meta metav1.Object, of *objects.Kind) (k objects.Key, trimmed any, err error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return k, nil, fmt.Errorf("%s %s: %w", of, meta.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetKind(of.String())
	return offlineTrim(u, u, objects.Key{Kind: of})
}

func offlineTrim(o any, meta metav1.Object, k objects.Key) (objects.Key, any, error) {
	k.Name = objects.FullName(meta.GetNamespace(), meta.GetName())
	if meta.GetUID() == "" {
		meta.SetUID(types.UID(k.Kind.String() + "/" + k.Name))
	}
	trimmed, err := k.Kind.Trim(o)
	return k, trimmed, err
}

// clusterWide is the kind of a cluster-wide policy.
func clusterWide(o runtime.Object) (*objects.Kind, bool) {
	switch o.(type) {
	case *v1alpha2.ClusterNetworkPolicy:
		return objects.ClusterPolicyKind, true
	case *v1alpha1.AdminNetworkPolicy:
		return objects.AdminPolicyKind, true
	case *v1alpha1.BaselineAdminNetworkPolicy:
		return objects.BaselinePolicyKind, true
	}
	return nil, false
}

// Connection is the first packet of a connection from one end to another, each a pod's namespace/name or an
// address; protocol is tcp, udp, sctp or icmp, and has no port in the last case. Between two pods it is of
// their family-th address family, 0 being their first.
func (o *Offline) Connection(from, to, protocol string, port uint16, family int) (acl.Connection, error) {
	var c acl.Connection
	ends := [2]struct {
		port  string
		addrs []netip.Addr
	}{}
	for i, text := range []string{from, to} {
		if p, ok := o.Pods[text]; ok {
			ends[i].port, ends[i].addrs = p.Port, p.Addresses
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return c, fmt.Errorf("%q is neither a pod with an address of its own, as namespace/name, nor an address", text)
		}
		ends[i].addrs = []netip.Addr{addr.Unmap()}
		for _, p := range o.Pods {
			if slices.Contains(p.Addresses, addr.Unmap()) {
				ends[i].port = p.Port
			}
		}
	}
	found := false
	for _, src := range ends[0].addrs {
		for _, dst := range ends[1].addrs {
			if src.Is4() != dst.Is4() {
				continue
			}
			if !found || family > 0 {
				c.Src, c.Dst, family = src, dst, family-1
			}
			found = true
		}
	}
	if !found {
		return c, fmt.Errorf("%s and %s have no addresses of one family", from, to)
	}
	c.Inport, c.Outport = ends[0].port, ends[1].port
	c.SrcPort, c.DstPort = northbound.ClientPorts, port
	switch protocol {
	case "tcp":
		c.Proto = 6
	case "udp":
		c.Proto = 17
	case "sctp":
		c.Proto = 132
	case "icmp":
		c.Proto, c.SrcPort, c.DstPort = 1, 0, 0
		if c.Src.Is6() {
			c.Proto = 58
		}
	default:
		return c, fmt.Errorf("protocol %q is none of tcp, udp, sctp and icmp", protocol)
	}
	return c, nil
}

// HairpinAddress is where a pod sees itself as a client, of its own Service, of an address' family.
func HairpinAddress(of netip.Addr) netip.Addr {
	return netip.MustParseAddr(northbound.HairpinAddresses[ipam.FamilyIndex(of.Is4())])
}

// withNamespaces adds the namespaces that objects are in and that are not among them.
func withNamespaces(objects []runtime.Object) []runtime.Object {
	there, named := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		meta, ok := o.(metav1.Object)
		if _, is := o.(*corev1.Namespace); is {
			there[meta.GetName()] = true
		} else if ok && meta.GetNamespace() != "" {
			named[meta.GetNamespace()] = true
		}
	}
	list := slices.Clone(objects)
	for name := range named {
		if !there[name] {
			list = append(list, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	return list
}
