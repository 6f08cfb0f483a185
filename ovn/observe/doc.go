// Package observe is `weft observe`: a read-only door to what the network does, for users of the API server.
//
// It is an aggregated API, group observe.weft.net. The API server authenticates a user, asks his rights in that group's
// resources, and passes the request on by its front-proxy certificate, with his name in headers. The door takes
// requests of that certificate alone, and asks the API server once more for the user's right (SubjectAccessReview).
//
// What it can reach cannot be written by it: OVN's databases by sockets that ovsdb-server serves read-only, the nodes'
// agents by a certificate that gets counters of flows, the agent's metrics and what the datapath remembers of
// connections, and nothing else.
package observe
