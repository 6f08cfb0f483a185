package writeback

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	statusRefused = &reasons.Event{
		Name: "StatusRefused", On: "Service, EgressIP, AddressPool and cluster-wide policies",
		Meaning: "The API server refuses the status that Weft writes.",
		Remedy: "Remove the cause that the message names. Most often the controller lacks a right. Weft tries again every " +
			"minute.",
		See: "reference.md#rights",
	}
	annotationRefused = &reasons.Event{
		Name: "AnnotationRefused", On: "Pod, Node, NetworkPolicy",
		Meaning: "The API server refuses an annotation that Weft writes. The message says why: most often the " +
			"object's annotations are too long already, or the controller lacks a right.",
		Remedy: "Make the object's other annotations shorter, or give the controller its rights again, as the " +
			"message says. Weft tries again every minute.",
		See: "reference.md#rights",
	}
	podNetworksRefused = &reasons.Event{
		Name: "PodNetworksRefused", On: "Node",
		Meaning: "The API server refuses the PodNetworks of the node, or the Role by which the node's agent reads it. " +
			"New pods of the node may have no network.",
		Remedy: "Give the controller its rights again, as the message says. Weft tries again every minute.",
		See:    "reference.md#rights",
	}
)
