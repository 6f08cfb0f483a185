// Package loadbalancer turns a Service and its EndpointSlices into load balancers.
//
// [Rows] are pure: what a Service's rows depend on of nodes is in [Nodes], and who has an address or port outside is
// decided before (objects.Rejection). A Service has a frontend for each protocol and sort of address (frontend.go).
// Where nodes see different endpoints, each view is a load balancer of its own (balancer.go, hints.go). [At] answers
// for a client what it gets, by the same code. [Problems] are what the Service's owner is told.
//
// Of packages below ovn it imports objects, ipam, northbound and capability.
package loadbalancer
