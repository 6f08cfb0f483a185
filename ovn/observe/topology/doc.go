// Package topology says which logical switches and routers a network has, and where their ports are, in Kubernetes'
// words: nodes, their pods and gateways.
//
// [Sources.Read] reads the databases into a [reading], whose list is pure. [Of] cuts a topology down to what a user may
// see, or has asked for.
package topology
