// Package pods follows the Pods of this node, as far as the agent has to know them: the network that the controller has
// given each, who is on the way out, and which ports of the host they ask for.
// It imports hostservice for these, and no other room of the agent.
package pods
