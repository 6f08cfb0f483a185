package ovn

// namespaceBook has the labels of the Namespaces that are there, by name.
type namespaceBook map[string]labelSet

func (b namespaceBook) labels(name string) (set labelSet, there bool) {
	set, there = b[name]
	return set, there
}

// updateNamespaces takes in Namespaces: their labels, by which policies, EgressIPs and AddressPools select, and how
// their policies' decisions are logged.
func (c *cluster) updateNamespaces(names []string, get lookup) {
	for _, name := range names {
		object, _ := get(objectKey{namespaceKind, name}).(*namespace)
		before, known := c.namespaces[name]
		c.policies.noteLogging(name, object)
		switch {
		case object == nil:
			delete(c.namespaces, name)
		case known && before == object.labels:
			continue
		default:
			c.namespaces[name] = object.labels
		}
		c.policies.lookAt(name)
		c.balancers.lookAt(name)
		c.egress.lookAt(name)
	}
}
