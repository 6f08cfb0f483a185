package objects

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/ipam"
)

// AddressPool is an AddressPool.
type AddressPool struct {
	Custom
	Ranges                      []AddressRange
	Auto                        bool
	Services, Namespaces, Nodes labels.Selector
	Network                     string
}

// AddressRange is all addresses from first to last.
type AddressRange struct {
	Text        string // as the user wrote it
	First, Last netip.Addr
	Wrong       string
}

// RangeOf is all of a prefix.
func RangeOf(p netip.Prefix) AddressRange {
	return AddressRange{First: p.Masked().Addr(), Last: ipam.LastOf(p)}
}

func (r AddressRange) Contains(addr netip.Addr) bool {
	return r.Wrong == "" && addr.Is4() == r.First.Is4() && r.First.Compare(addr) <= 0 && addr.Compare(r.Last) <= 0
}

func (r AddressRange) Overlaps(o AddressRange) bool {
	return r.Wrong == "" && o.Wrong == "" && r.First.Is4() == o.First.Is4() && r.First.Compare(o.Last) <= 0 &&
		o.First.Compare(r.Last) <= 0
}

func trimAddressPool(u *unstructured.Unstructured, o *v1alpha1.AddressPool, err error) *AddressPool {
	p := &AddressPool{
		Custom: NewCustom(u, o.Status.Conditions, err), Auto: Deref(o.Spec.AutoAssign, true), Network: o.Spec.Network}
	p.complain(checkSpecNetwork(p.Network))
	p.Services = p.selector("serviceSelector", o.Spec.ServiceSelector, labels.Everything())
	p.Namespaces = p.selector("namespaceSelector", o.Spec.NamespaceSelector, labels.Everything())
	p.Nodes = p.selector("nodeSelector", o.Spec.NodeSelector, labels.Everything())
	for _, text := range o.Spec.Ranges {
		p.Ranges = append(p.Ranges, ParseRange(text))
	}
	return p
}

// ParseRange reads a prefix, or first and last address.
func ParseRange(text string) AddressRange {
	r := AddressRange{Text: text}
	if prefix, err := netip.ParsePrefix(text); err == nil && !prefix.Addr().Is4In6() {
		r.First, r.Last = prefix.Masked().Addr(), ipam.LastOf(prefix)
		if prefix != prefix.Masked() {
			r.Wrong = fmt.Sprintf("has bits set beyond its prefix length; write %s", prefix.Masked())
		}
	} else {
		from, to, _ := strings.Cut(text, "-")
		first, err1 := netip.ParseAddr(strings.TrimSpace(from))
		last, err2 := netip.ParseAddr(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || first.Zone()+last.Zone() != "" || first.Is4In6() || last.Is4In6() {
			r.Wrong = "is neither a prefix nor first and last address; write it like 203.0.113.64/27 or " +
				"203.0.113.64-203.0.113.80"
			return r
		}
		r.First, r.Last = first, last
	}
	switch {
	case r.Wrong != "":
	case r.First.Is4() != r.Last.Is4():
		r.Wrong = "begins and ends in different address families; write one range for each"
	case r.Last.Less(r.First):
		r.Wrong = "ends before it begins; write the smaller address first"
	case !r.First.IsGlobalUnicast() || !r.Last.IsGlobalUnicast():
		r.Wrong = "is unspecified, loopback, link-local or multicast; give addresses of the nodes' external subnet"
	}
	return r
}

// MaxFree bounds what a status says of free addresses: JSON's numbers are exact up to here.
const MaxFree = math.MaxInt64 >> 10

// Size is the number of a range's addresses, maxFree where they are more.
func (r AddressRange) Size() int64 {
	a, b := r.First.As16(), r.Last.As16()
	n := int64(0)
	for i := range a {
		if n = n<<8 + int64(b[i]) - int64(a[i]); n > MaxFree>>9 {
			return MaxFree
		}
	}
	return n + 1
}

func (p *AddressPool) equal(o *AddressPool) bool { return p.Custom.equal(&o.Custom) }
