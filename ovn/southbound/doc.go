// Package southbound lets nodes at OVN's Southbound, each at what is its own.
//
// ovsdb-server has roles for that (RBAC), and the role ovn-controller is about rows that bear a chassis' name. It
// asks nothing of ports: every node may claim every port, and with it the packets for a pod of another node. A
// [Guard] stands between the nodes and the server. It reads what nodes ask for, refuses what is another
// node's, and logs it; what the server says passes as it is. To the server it is the only client of all
// nodes, by a socket beside it: nodes' certificates open the guard, and neither the server nor its cluster.
//
// What is whose it knows by a replica of the few columns that say it.
//
// While a node waits for the server, the guard tells it that it is there (alive.go).
//
// Beside that it makes the remote chassis of nodes of other zones, by the ports that the controller gives these nodes
// on the transit switch (remote.go, and remoteplan.go, which decides).
package southbound
