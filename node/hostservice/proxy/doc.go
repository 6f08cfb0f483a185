// Package proxy forwards TCP and UDP from sockets of the host to pods and Services.
//
// A packet that a host sends to one of its own addresses never leaves it, so no datapath sees the packet. For the host
// itself, and for clients that come by other ways than OVN's, the agent listens there: [Sockets] opens and closes until
// the sockets are those that are wanted. A [Target] says where the connections of a socket go, and which clients it
// serves.
package proxy
