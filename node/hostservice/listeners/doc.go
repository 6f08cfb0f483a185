// Package listeners finds the programs of a host that listen, and remembers them.
//
// The agent opens no port of a daemon. A daemon that starts after the agent, as after a boot, or that starts again,
// finds its port as it has left it: [Daemons] looks at the system's list of sockets, keeps it in a file, and gives the
// cluster the part of it that other nodes have to know. A [Set] answers whether a socket can be opened.
package listeners
