// Package egress has pods leave with the addresses of EgressIPs.
//
// A [Part] decides with which EgressIP a pod leaves, and which nodes stand by for an EgressIP's addresses (plan.go). It
// makes the rows of an EgressIP (rows.go): the sets of its pods, the policies of the cluster's router that ask these
// sets, and a router of its own. A pod's own change puts the pod's addresses into the sets, by [AddTo].
//
// What it sees of others is in views.go. It tells of an EgressIP's state in the object's status alone.
package egress
