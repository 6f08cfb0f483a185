package detours

import "github.com/weftnet/weft/models/reasons"

// badSpec is the reason of an Event.
var badSpec = &reasons.Event{
	Name: "BadSpec", On: "Detour",
	Meaning: "spec is wrong. The message names the field.",
	Remedy:  "Correct the field.",
}

// Reasons of the condition Ready.
var (
	inUse = &reasons.Condition{
		Name: "InUse", On: "Detour", Ready: true,
		Meaning: "Nodes have the route. The message says how many.",
	}
	wrong = &reasons.Condition{
		Name: "BadSpec", On: "Detour",
		Meaning: "spec is wrong. The message names the field.",
		Remedy:  "Correct the field.",
	}
	noNode = &reasons.Condition{
		Name: "NoNode", On: "Detour",
		Meaning: "No node's gateway has the next hop in its network.",
		Remedy:  "Give an address in the network of the nodes' gateways.",
	}
)
