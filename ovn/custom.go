package ovn

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// labelSet is an object's labels, as selectors read them. Those that many objects have in common are in
// memory once.
type labelSet struct{ text unique.Handle[string] }

func newLabelSet(set map[string]string) labelSet {
	if len(set) == 0 {
		return labelSet{}
	}
	return labelSet{unique.Make(labels.Set(set).String())}
}

// Lookup is part of [labels.Labels].
func (l labelSet) Lookup(label string) (value string, ok bool) {
	if l == (labelSet{}) {
		return "", false
	}
	for pair := range strings.SplitSeq(l.text.Value(), ",") {
		if key, value, _ := strings.Cut(pair, "="); key == label {
			return value, true
		}
	}
	return "", false
}

// Has is part of [labels.Labels].
func (l labelSet) Has(label string) bool {
	_, ok := l.Lookup(label)
	return ok
}

// Get is part of [labels.Labels].
func (l labelSet) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}

// namespace is a Namespace.
type namespace struct {
	metav1.ObjectMeta
	labels  labelSet
	logging string // contract.ACLLoggingAnnotation
}

// custom is what the kinds of weft's own API group have in common.
type custom struct {
	metav1.ObjectMeta // with its generation
	wrong             string
	conditions        []metav1.Condition
	status            string // all of it, as JSON
}

func (o *custom) equal(b *custom) bool { return o.asks(b) && o.status == b.status }

// asks says whether two states of an object ask for the same: of its metadata nothing else is read than what it is.
func (o *custom) asks(b *custom) bool { return o.UID == b.UID && o.Generation == b.Generation }

// egressIP is an EgressIP.
type egressIP struct {
	custom
	addresses               []netip.Addr // at most one a family, IPv4 first
	namespaces, pods, nodes labels.Selector
	network                 string
}

// addressPool is an AddressPool.
type addressPool struct {
	custom
	ranges                      []addressRange
	auto                        bool
	services, namespaces, nodes labels.Selector
	network                     string
}

// addressRange is all addresses from first to last.
type addressRange struct {
	text        string // as the user wrote it
	first, last netip.Addr
	wrong       string
}

// rangeOf is all of a prefix.
func rangeOf(p netip.Prefix) addressRange {
	return addressRange{first: p.Masked().Addr(), last: lastOf(p)}
}

func (r addressRange) contains(addr netip.Addr) bool {
	return r.wrong == "" && addr.Is4() == r.first.Is4() && r.first.Compare(addr) <= 0 && addr.Compare(r.last) <= 0
}

func (r addressRange) overlaps(o addressRange) bool {
	return r.wrong == "" && o.wrong == "" && r.first.Is4() == o.first.Is4() && r.first.Compare(o.last) <= 0 && o.first.Compare(r.last) <= 0
}

func trimNamespace(o *corev1.Namespace) *namespace {
	return &namespace{trimMeta(&o.ObjectMeta), newLabelSet(o.Labels), o.Annotations[contract.ACLLoggingAnnotation]}
}

// trimUnstructured reads the kinds that an API server may lack: those of weft's own API group, and ServiceCIDR.
func trimUnstructured(o *unstructured.Unstructured) any {
	switch o.GetKind() {
	case "EgressIP":
		object := &v1alpha1.EgressIP{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object)
		return trimEgressIP(o, object, err)
	case "AddressPool":
		object := &v1alpha1.AddressPool{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object)
		return trimAddressPool(o, object, err)
	case resolvedKind.String():
		object := &v1alpha1.ResolvedNames{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object)
		return trimResolvedNames(o, object, err)
	case serviceCIDRKind.String():
		return trimServiceCIDR(o)
	case clusterPolicyKind.String():
		return trimClusterPolicy(o)
	case adminPolicyKind.String():
		return trimAdminPolicy(o)
	case baselinePolicyKind.String():
		return trimBaselinePolicy(o)
	}
	return o
}

// newCustom keeps what every kind has. Where the object could not be read, only what it is called is
// known of it.
func newCustom(o *unstructured.Unstructured, conditions []metav1.Condition, err error) custom {
	c := custom{conditions: conditions}
	c.ObjectMeta = metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		CreationTimestamp: o.GetCreationTimestamp(), Generation: o.GetGeneration()}
	if status, ok := o.Object["status"]; ok {
		text, _ := json.Marshal(status) // it was JSON
		c.status = string(text)
	}
	c.complain(err)
	return c
}

// complain keeps the first that is wrong.
func (o *custom) complain(err error) {
	if err != nil && o.wrong == "" {
		o.wrong = quoted(err.Error())
	}
}

// selector reads one; an absent one selects what otherwise says.
func (o *custom) selector(field string, s *metav1.LabelSelector, otherwise labels.Selector) labels.Selector {
	if s == nil {
		return otherwise
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		o.complain(fmt.Errorf("spec.%s: %w", field, err))
		return labels.Nothing()
	}
	return parsed
}

// egressNodes is the selector of an EgressIP without one.
var egressNodes, _ = labels.Parse(v1alpha1.EgressLabel + "," + v1alpha1.EgressLabel + "!=false")

func trimEgressIP(u *unstructured.Unstructured, o *v1alpha1.EgressIP, err error) *egressIP {
	e := &egressIP{custom: newCustom(u, o.Status.Conditions, err), network: o.Spec.Network}
	e.namespaces = e.selector("namespaceSelector", &o.Spec.NamespaceSelector, nil)
	e.pods = e.selector("podSelector", o.Spec.PodSelector, labels.Everything())
	e.nodes = e.selector("nodeSelector", o.Spec.NodeSelector, egressNodes)
	e.complain(checkSpecNetwork(e.network))
	e.addresses, err = parseOnePerFamily("spec.addresses", o.Spec.Addresses)
	e.complain(err)
	if len(o.Spec.Addresses) == 0 {
		e.complain(fmt.Errorf("spec.addresses: is empty; give one IPv4 or IPv6 address, or one of each"))
	}
	return e
}

// checkSpecNetwork checks the name of the network outside that an object may give.
func checkSpecNetwork(network string) error {
	if network != "" && !contract.NetworkName.MatchString(network) {
		return fmt.Errorf("spec.network: %q is not a name of letters, digits, '.', '_' and '-'; give the gateway-network of the nodes' agents", network)
	}
	return nil
}

// parseOnePerFamily reads addresses that hosts may have, at most one a family, IPv4 first.
func parseOnePerFamily(field string, texts []string) ([]netip.Addr, error) {
	var list []netip.Addr
	for _, text := range texts {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		switch {
		case err != nil || addr.Zone() != "" || addr.Is4In6():
			return nil, fmt.Errorf("%s: %q is not an IP address; write it like 203.0.113.20 or 2001:db8::20", field, quoted(text))
		case !addr.IsGlobalUnicast():
			return nil, fmt.Errorf("%s: %s is unspecified, loopback, link-local or multicast; give a free address of the nodes' external subnet", field, addr)
		case slices.ContainsFunc(list, func(a netip.Addr) bool { return a.Is4() == addr.Is4() }):
			return nil, fmt.Errorf("%s: %s is the second address of its family; keep one IPv4 and one IPv6 address at most", field, addr)
		}
		list = append(list, addr)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list, nil
}

func trimAddressPool(u *unstructured.Unstructured, o *v1alpha1.AddressPool, err error) *addressPool {
	p := &addressPool{custom: newCustom(u, o.Status.Conditions, err), auto: o.Spec.AutoAssign == nil || *o.Spec.AutoAssign, network: o.Spec.Network}
	p.complain(checkSpecNetwork(p.network))
	p.services = p.selector("serviceSelector", o.Spec.ServiceSelector, labels.Everything())
	p.namespaces = p.selector("namespaceSelector", o.Spec.NamespaceSelector, labels.Everything())
	p.nodes = p.selector("nodeSelector", o.Spec.NodeSelector, labels.Everything())
	for _, text := range o.Spec.Ranges {
		p.ranges = append(p.ranges, parseRange(text))
	}
	return p
}

// parseRange reads a prefix, or first and last address.
func parseRange(text string) addressRange {
	r := addressRange{text: text}
	if prefix, err := netip.ParsePrefix(text); err == nil && !prefix.Addr().Is4In6() {
		r.first, r.last = prefix.Masked().Addr(), lastOf(prefix)
		if prefix != prefix.Masked() {
			r.wrong = fmt.Sprintf("has bits set beyond its prefix length; write %s", prefix.Masked())
		}
	} else {
		from, to, _ := strings.Cut(text, "-")
		first, err1 := netip.ParseAddr(strings.TrimSpace(from))
		last, err2 := netip.ParseAddr(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || first.Zone()+last.Zone() != "" || first.Is4In6() || last.Is4In6() {
			r.wrong = "is neither a prefix nor first and last address; write it like 203.0.113.64/27 or 203.0.113.64-203.0.113.80"
			return r
		}
		r.first, r.last = first, last
	}
	switch {
	case r.wrong != "":
	case r.first.Is4() != r.last.Is4():
		r.wrong = "begins and ends in different address families; write one range for each"
	case r.last.Less(r.first):
		r.wrong = "ends before it begins; write the smaller address first"
	case !r.first.IsGlobalUnicast() || !r.last.IsGlobalUnicast():
		r.wrong = "is unspecified, loopback, link-local or multicast; give addresses of the nodes' external subnet"
	}
	return r
}

// maxFree bounds what a status says of free addresses: JSON's numbers are exact up to here.
const maxFree = math.MaxInt64 >> 10

// size is the number of a range's addresses, maxFree where they are more.
func (r addressRange) size() int64 {
	a, b := r.first.As16(), r.last.As16()
	n := int64(0)
	for i := range a {
		if n = n<<8 + int64(b[i]) - int64(a[i]); n > maxFree>>9 {
			return maxFree
		}
	}
	return n + 1
}

// ready is the condition Ready as it shall be. It keeps the time of the one that is there where the
// status is the same, and has none else: it gets that when it is written.
func (o *custom) ready(ok bool, reason, message string) metav1.Condition {
	now := metav1.Condition{Type: v1alpha1.Ready, Status: metav1.ConditionFalse, ObservedGeneration: o.Generation, Reason: reason, Message: cut(message, maxMessage)}
	if ok {
		now.Status = metav1.ConditionTrue
	}
	for _, before := range o.conditions {
		if before.Type == now.Type && before.Status == now.Status {
			now.LastTransitionTime = before.LastTransitionTime
		}
	}
	return now
}
