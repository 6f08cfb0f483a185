package objects

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/reasons"
)

// Ready is the condition Ready as it must be. It keeps the time of the one that is there where the
// status is the same, and has none else: it gets that when it is written.
func (o *Custom) Ready(reason *reasons.Condition, message string) metav1.Condition {
	now := metav1.Condition{Type: v1alpha1.Ready, Status: metav1.ConditionFalse, ObservedGeneration: o.Generation,
		Reason: reason.Name, Message: Cut(message, MaxMessage)}
	if reason.Ready {
		now.Status = metav1.ConditionTrue
	}
	for _, before := range o.Conditions {
		if before.Type == now.Type && before.Status == now.Status {
			now.LastTransitionTime = before.LastTransitionTime
		}
	}
	return now
}

// ownConditions are ours of an object.
func ownConditions(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return c.Type != v1alpha1.Ready })
}
