package ovn

import "github.com/weftnet/weft/ovn/objects"

// namespaceBook has the labels of the Namespaces that are there, by name.
type namespaceBook map[string]objects.LabelSet

func (b namespaceBook) labels(name string) (set objects.LabelSet, there bool) {
	set, there = b[name]
	return set, there
}

// updateNamespaces takes in Namespaces: their labels, by which policies, EgressIPs and AddressPools select, and how
// their policies' decisions are logged.
func (c *cluster) updateNamespaces(names []string, get lookup) {
	for _, name := range names {
		object, _ := get(objects.Key{Kind: objects.NamespaceKind, Name: name}).(*objects.Namespace)
		before, known := c.namespaces[name]
		c.policies.noteLogging(name, object)
		switch {
		case object == nil:
			delete(c.namespaces, name)
		case known && before == object.Labels:
			continue
		default:
			c.namespaces[name] = object.Labels
		}
		c.policies.lookAt(name)
		c.balancers.lookAt(name)
		c.egress.lookAt(name)
	}
}
