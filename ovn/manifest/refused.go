package manifest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	networkingv1 "k8s.io/api/networking/v1"
	metaapi "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/ovn/policy"
)

// refused is why an API server would not take an object, as far as the controller does not say so itself: those
// of its rules are here that a controller need not ask about, since nothing comes to it that breaks them.
func refused(o metav1.Object, text []byte) []fault {
	var list []fault
	for _, err := range metaapi.ValidateObjectMetaAccessor(o, o.GetNamespace() != "", metaapi.NameIsDNSSubdomain,
		field.NewPath("metadata")) {
		list = append(list, fault{err.Field, err.ErrorBody()})
	}
	c := &checker{faults: list}
	switch o := o.(type) {
	case *networkingv1.NetworkPolicy:
		c.networkPolicy(o)
	case *v1alpha2.ClusterNetworkPolicy:
		spec := specOf(text)
		c.clusterWide(spec, "protocols", 25)
		c.required(spec.at("priority"))
	case *v1alpha1.AdminNetworkPolicy:
		spec := specOf(text)
		c.clusterWide(spec, "ports", 100)
		c.required(spec.at("priority"))
	case *v1alpha1.BaselineAdminNetworkPolicy:
		c.clusterWide(specOf(text), "ports", 100)
		if o.Name != "default" {
			c.wrong("metadata.name", "is %q; the one of this kind that there can be is called \"default\"", o.Name)
		}
	}
	return c.faults
}

// checker keeps what is wrong.
type checker struct{ faults []fault }

func (c *checker) wrong(field, format string, args ...any) {
	c.faults = append(c.faults, fault{field, fmt.Sprintf(format, args...)})
}

// networkPolicy has the rules of k8s.io/kubernetes/pkg/apis/networking/validation.
func (c *checker) networkPolicy(o *networkingv1.NetworkPolicy) {
	for i, rule := range o.Spec.Ingress {
		c.tenantRule(fmt.Sprintf("spec.ingress[%d]", i), "from", rule.From, rule.Ports)
	}
	for i, rule := range o.Spec.Egress {
		c.tenantRule(fmt.Sprintf("spec.egress[%d]", i), "to", rule.To, rule.Ports)
	}
	if len(o.Spec.PolicyTypes) > 2 {
		c.wrong("spec.policyTypes", "has %d words, and there are but two", len(o.Spec.PolicyTypes))
	}
	// The controller reads no rules of a direction that the policy is not about.
	if len(o.Spec.PolicyTypes) > 0 {
		whole := o.DeepCopy()
		whole.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		_, before := policy.FromNetworkPolicy(o)
		_, all := policy.FromNetworkPolicy(whole)
		for _, p := range all {
			if !slices.Contains(before, p) {
				c.wrong(p.Field, "%s", p.Text)
			}
		}
	}
}

func (c *checker) tenantRule(rule, side string, peers []networkingv1.NetworkPolicyPeer,
	ports []networkingv1.NetworkPolicyPort) {
	for i, port := range ports {
		if port.Port != nil && port.Port.Type == intstr.String {
			c.portName(fmt.Sprintf("%s.ports[%d].port", rule, i), port.Port.StrVal)
		}
	}
	for i, peer := range peers {
		if peer.IPBlock == nil {
			continue
		}
		cidr, err := netip.ParsePrefix(peer.IPBlock.CIDR)
		for j, text := range peer.IPBlock.Except {
			if except, wrong := netip.ParsePrefix(text); err == nil && wrong == nil && except.Masked() == cidr.Masked() {
				c.wrong(fmt.Sprintf("%s.%s[%d].ipBlock.except[%d]", rule, side, i, j),
					"%s is the whole block, of which nothing is left; give a part of it, or remove the peer", text)
			}
		}
	}
}

func (c *checker) portName(field, name string) {
	problems := validation.IsValidPortName(name)
	switch {
	case len(problems) == 0:
	case name != "" && strings.Trim(name, "0123456789") == "":
		c.wrong(field, "%q in quotes is a name, and no name is without a letter; write the number without quotes", name)
	default:
		c.wrong(field, "%q is no port's name: %s", name, strings.Join(problems, ", "))
	}
}

// clusterWide has the rules of the CRDs, which allow so many peers and ports a rule.
func (c *checker) clusterWide(spec value, ports string, most int) {
	c.selectsPods(spec.at("subject"))
	for _, side := range [...]struct{ rules, peers string }{{"ingress", "from"}, {"egress", "to"}} {
		for _, rule := range spec.at(side.rules).items() {
			if name, _ := rule.at("name").value.(string); utf8.RuneCountInString(name) > 100 {
				c.wrong(rule.at("name").field, "has %d characters, more than 100; shorten it", utf8.RuneCountInString(name))
			}
			c.atMost(rule.at(side.peers), most)
			for _, peer := range rule.at(side.peers).items() {
				c.selectsPods(peer)
				c.set(peer.at("networks"))
				c.set(peer.at("domainNames"))
			}
			c.atMost(rule.at(ports), most)
			if list, there := rule.at(ports).value.([]any); there && len(list) == 0 {
				c.wrong(rule.at(ports).field, "is empty; leave it out for all, or give at least one")
			}
			for _, port := range rule.at(ports).items() {
				c.protocol(port)
			}
		}
	}
}

// protocol checks a ClusterNetworkPolicy's; AdminNetworkPolicy's ports have none of these fields.
func (c *checker) protocol(o value) {
	for _, word := range [...]string{"tcp", "udp", "sctp"} {
		within, there := o.at(word).value.(map[string]any)
		if !there {
			continue
		}
		if len(within) == 0 {
			c.wrong(o.at(word).field, "is empty; give a destinationPort, as {range: {start: 1, end: 65535}} for all")
		}
		if ports := o.at(word).at("destinationPort").at("range"); ports.value != nil &&
			ports.at("start").value == ports.at("end").value {
			c.wrong(ports.field, "starts where it ends; write it as a number")
		}
	}
}

// selectsPods checks what a subject and a peer have in common.
func (c *checker) selectsPods(o value) {
	if pods := o.at("pods"); pods.value != nil {
		c.required(pods.at("podSelector"))
	}
}

func (c *checker) required(o value) {
	if o.value == nil {
		c.wrong(o.field, "is required, and is not there")
	}
}

func (c *checker) atMost(list value, most int) {
	if n := len(list.items()); n > most {
		c.wrong(list.field, "has %d items, more than %d; write several rules", n, most)
	}
}

// set checks a list of texts that has each of them once.
func (c *checker) set(list value) {
	c.atMost(list, 25)
	seen := map[any]bool{}
	for _, item := range list.items() {
		if seen[item.value] {
			c.wrong(item.field, "%v is there twice; remove one", item.value)
		}
		seen[item.value] = true
	}
}

// value is one in an object's JSON.
type value struct {
	field string
	value any
}

// specOf is that of an object that has been decoded before.
func specOf(text []byte) value {
	var object struct{ Spec any }
	_ = json.Unmarshal(text, &object)
	return value{"spec", object.Spec}
}

// at is what an object has under a key; its value is nil where there is none.
func (v value) at(key string) value {
	object, _ := v.value.(map[string]any)
	return value{v.field + "." + key, object[key]}
}

func (v value) items() []value {
	list, _ := v.value.([]any)
	items := make([]value, len(list))
	for i, item := range list {
		items[i] = value{fmt.Sprintf("%s[%d]", v.field, i), item}
	}
	return items
}
