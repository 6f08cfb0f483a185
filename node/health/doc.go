// Package health is what the agent knows about its node: the conditions that must hold before a pod can be attached,
// the notes of what is amiss with something else ([Tracker]), and what the agent's loops are at ([Rounds]).
// It imports no other room of the agent.
package health
