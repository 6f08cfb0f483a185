// Package platform is the border between the agent and its node's operating system: what the agent asks of a system
// ([Platform]), and the types that it speaks of.
//
// Packages linux and windows keep the promises on the two systems, and package platformtest on a host that is
// only a few maps; its story runs on all three. The agent's rooms take no more of the contract than they use:
// [Host], [Uplinks] or [Endpoints].
//
// Imports point here: from the agent, from openvswitch, linux and windows. This package imports none of them, so
// that neither system can reach behind the contract.
package platform
