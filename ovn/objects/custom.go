package objects

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/contract"
)

// Custom is what the kinds of weft's own API group have in common.
type Custom struct {
	metav1.ObjectMeta // with its generation
	Wrong             string
	Conditions        []metav1.Condition
	Status            string // all of it, as JSON
}

func (o *Custom) equal(b *Custom) bool { return o.AsksTheSame(b) && o.Status == b.Status }

// AsksTheSame says whether two states of an object ask for the same: of its metadata nothing else is read than what
// it is.
func (o *Custom) AsksTheSame(b *Custom) bool { return o.UID == b.UID && o.Generation == b.Generation }

// NewCustom keeps what every kind has. Where the object could not be read, only what it is called is
// known of it.
func NewCustom(o *unstructured.Unstructured, conditions []metav1.Condition, err error) Custom {
	c := Custom{Conditions: conditions}
	c.ObjectMeta = metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		CreationTimestamp: o.GetCreationTimestamp(), Generation: o.GetGeneration()}
	if status, ok := o.Object["status"]; ok {
		text, _ := json.Marshal(status) // it was JSON
		c.Status = string(text)
	}
	c.complain(err)
	return c
}

// complain keeps the first that is wrong.
func (o *Custom) complain(err error) {
	if err != nil && o.Wrong == "" {
		o.Wrong = Quoted(err.Error())
	}
}

// selector reads one; an absent one selects what otherwise says.
func (o *Custom) selector(field string, s *metav1.LabelSelector, otherwise labels.Selector) labels.Selector {
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

// checkSpecNetwork checks the name of the network outside that an object may give.
func checkSpecNetwork(network string) error {
	if network != "" && !contract.NetworkName.MatchString(network) {
		return fmt.Errorf("spec.network: %q is not a name of letters, digits, '.', '_' and '-'; give the "+
			"gateway-network of the nodes' agents", network)
	}
	return nil
}

// ParseOnePerFamily reads addresses that hosts may have, at most one a family, IPv4 first.
func ParseOnePerFamily(field string, texts []string) ([]netip.Addr, error) {
	var list []netip.Addr
	for _, text := range texts {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		switch {
		case err != nil || addr.Zone() != "" || addr.Is4In6():
			return nil, fmt.Errorf("%s: %q is not an IP address; write it like 203.0.113.20 or 2001:db8::20", field,
				Quoted(text))
		case !addr.IsGlobalUnicast():
			return nil, fmt.Errorf("%s: %s is unspecified, loopback, link-local or multicast; give a free address "+
				"of the nodes' external subnet", field, addr)
		case slices.ContainsFunc(list, func(a netip.Addr) bool { return a.Is4() == addr.Is4() }):
			return nil, fmt.Errorf("%s: %s is the second address of its family; keep one IPv4 and one IPv6 address "+
				"at most", field, addr)
		}
		list = append(list, addr)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list, nil
}
