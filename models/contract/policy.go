package contract

import "time"

const (
	// PolicyStatusAnnotation is the annotation of a NetworkPolicy: whether the policy is in force, and why not
	// ([PolicyStatus]). The controller writes it, since the kind has no status.
	PolicyStatusAnnotation = "weft.net/policy-status"
	// ACLLoggingAnnotation is the annotation of a Namespace or a cluster-wide policy: how to log connections that the
	// Namespace's policies, or the policy itself, allow, deny or pass ([ACLLogging]). The owner of the object writes
	// it.
	ACLLoggingAnnotation = "weft.net/acl-logging"
)

// ACLLogRate is how many lines each ACL may have in the log of a node's ovn-controller, per second. In a cluster with
// Windows nodes, all ACLs have so many together.
const ACLLogRate = 20

// PolicyStatus says whether a NetworkPolicy is in force.
type PolicyStatus struct {
	// UID is the policy's metadata.uid. An annotation with another UID is not valid. So an annotation in the manifest of
	// a new policy is never valid: nobody knows the UID before the policy exists.
	UID string `json:"uid"`
	// Generation is the policy's metadata.generation that the status is about.
	Generation int64 `json:"generation"`
	// InForce is true if the policy is in force, or a part of it.
	InForce bool `json:"inForce"`
	// Since is the time from which inForce has had its value, for this generation.
	Since *time.Time `json:"since"`
	// Reason is one of the reasons that the condition Ready of cluster-wide policies has.
	Reason string `json:"reason"`
	// Message is what users read: what is in force and where, and what is wrong.
	Message string `json:"message"`
}

// ACLLogging says with what severity connections are logged that a policy's rules decide: alert, warning,
// notice, info or debug; empty: they are not.
type ACLLogging struct {
	// Allow is the severity for connections that a rule allows.
	Allow string `json:"allow,omitempty"`
	// Deny is the severity for connections that a rule denies, or that no NetworkPolicy of an isolated pod allows.
	Deny string `json:"deny,omitempty"`
	// Pass is the severity for connections that a rule passes on to the next tier.
	Pass string `json:"pass,omitempty"`
}

// Wrong is a severity that is none.
func (l ACLLogging) Wrong() (severity string, wrong bool) {
	for _, s := range []string{l.Allow, l.Deny, l.Pass} {
		switch s {
		case "", "alert", "warning", "notice", "info", "debug":
		default:
			return s, true
		}
	}
	return "", false
}
