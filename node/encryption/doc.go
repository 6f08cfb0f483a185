// Package encryption keeps the node's tunnels as the key encryption wants them: it tells package ipsec who the peers
// are, and the node's users what is not encrypted. On Windows there is nothing to keep.
// It imports ipsec, openvswitch and health.
package encryption
