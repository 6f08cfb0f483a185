// Package policies turns network policies into ACLs, and whom they select into port groups and address sets.
//
// It has three parts. [Part] has the policies of all kinds as package policy has read them, their order, ACLs (rows.go,
// match.go) and statuses (status.go). [Selections] are whom they select: namespaces and pods by their labels, with what
// numbers are behind the names of pods' ports (numbers.go). [NodeSets] are the sets of nodes that they name.
//
// A selection is the unit: as a policy's subject it is a port group, as a rule's peer a pair of address sets, and
// however many policies name it, it is there once. Pods and nodes join the sets by [AddTo] and [NodeSets.AddTo], in
// changes of their own. How long a set stays that nobody names any more, and in which order a named port's numbers go,
// is with selections.go and numbers.go. In which order changes are made says [part.Stage].
//
// What the parts see of pods, nodes and Namespaces is in views.go. Of packages below ovn it imports part, objects,
// policy, domains, settings, ipam and northbound.
package policies
