package policies

import "github.com/weftnet/weft/models/reasons"

// Kinds of policies.
const (
	clusterWide = "ClusterNetworkPolicy, AdminNetworkPolicy, BaselineAdminNetworkPolicy"
	everyPolicy = "NetworkPolicy, " + clusterWide
)

// Reasons of Events.
var (
	badPolicy = &reasons.Event{
		Name: "BadPolicy", On: everyPolicy,
		Meaning: "A part of the policy is wrong, or all of it. The message names the field. The condition Ready " +
			"of the policy, or the annotation of a NetworkPolicy, says whether the other parts are in force.",
		Remedy: "Correct the field.",
		See:    "policies.md#what-became-of-a-policy",
	}
	noSCTPOnWindows = &reasons.Event{
		Name: "NoSCTPOnWindows", On: everyPolicy,
		Meaning: "The policy has rules for SCTP, and the cluster has Windows nodes. These rules are in force on " +
			"Linux nodes. Pods on Windows nodes can neither send nor get SCTP, whatever the rules say.",
		Remedy: "Run pods that use SCTP on Linux nodes.",
	}
	lacksACLTiers = &reasons.Event{
		Name: "NoACLTiers", On: clusterWide,
		Meaning: "The policy is not in force, since OVN is older than 23.06 and has no tiers of ACLs.",
		Remedy:  "Upgrade OVN.",
	}
	PriorityFull = &reasons.Event{
		Name: "PriorityFull", On: clusterWide,
		Meaning: "The policy is not in force. Older policies of its priority have so many rules that there is no room for " +
			"its own.",
		Remedy: "Give the policy another priority.",
		See:    "policies.md#what-became-of-a-policy",
	}
	samePriority = &reasons.Event{
		Name: "SamePriority", On: clusterWide,
		Meaning: "Another policy of the same tier has the same priority. The message says which of the two decides first.",
		Remedy:  "Give each policy a priority of its own.",
		See:     "policies.md#what-became-of-a-policy",
	}
	badAnnotation = &reasons.Event{
		Name: "BadAnnotation", On: "Namespace, " + clusterWide,
		Meaning: "The annotation weft.net/acl-logging has a value that Weft does not know. Nothing is logged.",
		Remedy:  "Correct the annotation.",
		See:     "policies.md#logging",
	}
	tooManyPorts = &reasons.Event{
		Name: "TooManyPorts", On: "Pod",
		Meaning: "The pod has more than 16 port numbers behind one port name. Policies that name the port apply to the " +
			"first 16, in the order TCP, UDP, SCTP, and within a protocol by number.",
		Remedy: "Use fewer numbers for the name, or write numbers in the policies.",
	}
)

// Reasons of the condition Ready.
var (
	inForce = &reasons.Condition{
		Name: "InForce", On: everyPolicy, Ready: true,
		Meaning: "The whole policy is in force. The message names its rows, and named ports that no pod has now. It also " +
			"has the messages of the Events SamePriority and NoSCTPOnWindows, if there are any.",
	}
	partlyInForce = &reasons.Condition{
		Name: "PartlyInForce", On: everyPolicy,
		Meaning: "The policy is in force, except for the parts that the message names.",
		Remedy:  "Correct these parts.",
	}
	notReadable = &reasons.Condition{
		Name: "BadPolicy", On: everyPolicy,
		Meaning: "The policy is not in force, since it is wrong. The message says what is wrong.",
		Remedy:  "Correct the policy.",
	}
	notRanked = &reasons.Condition{
		Name: "NoACLTiers", On: clusterWide,
		Meaning: "The policy is not in force, since OVN is older than 23.06 and has no tiers of ACLs.",
		Remedy:  "Upgrade OVN.",
	}
	noRoom = &reasons.Condition{
		Name: "PriorityFull", On: clusterWide,
		Meaning: "The policy is not in force. Older policies of its priority leave it no room.",
		Remedy:  "Give the policy another priority.",
	}
)
