// Package hostports compares who has a port of a host, as the controller decides for OVN, with whom the node's agent
// decides for: random clusters are given to both.
package hostports
