package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/health"
)

const (
	// conditionPeriod is how often the condition is compared with what the agent knows.
	conditionPeriod = 2 * time.Second
	// messagePeriod is how long a message stays whose reason stays: texts may have times in them.
	messagePeriod = 10 * time.Second
)

// tellCondition keeps the condition of the Node until ctx ends. Unlike an Event it says what is so now, also to those
// that come hours later.
func (r *reconciler) tellCondition(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), r.node.informer.HasSynced) {
		return nil
	}
	tick := time.NewTicker(conditionPeriod)
	defer tick.Stop()
	for fails := false; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		var err error
		r.rounds.Do("condition", func() { err = r.tellConditionOnce(ctx) })
		if err != nil && !fails && ctx.Err() == nil {
			slog.WarnContext(ctx, "the Node does not tell how its agent fares; it is tried again", "error", err)
		}
		fails = err != nil
	}
}

func (r *reconciler) tellConditionOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTime)
	defer cancel()
	r.health.Note(health.HNS, hnsHangs, r.platform.Unanswered())
	return r.node.tell(ctx, conditionOf(r.health), time.Now())
}

// conditionOf is what the agent knows, as a condition without times. Limits of zones need another Open vSwitch: that is
// told once, by an Event, and no fault of today.
func conditionOf(h *health.Tracker) corev1.NodeCondition {
	noted := h.Noted()
	delete(noted, health.Connections)
	problems, notes := h.Lasting().All(), noted.All()
	switch {
	case problems != nil: // a note may have the cause, as when HNS hangs
		return condition(agentNotReady, errors.Join(problems, notes))
	case notes != nil:
		return condition(agentWarns, notes)
	}
	return condition(agentReady, nil)
}

func condition(reason *reasons.Condition, message error) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: contract.AgentCondition, Status: corev1.ConditionFalse, Reason: reason.Name}
	if reason.Ready {
		c.Status = corev1.ConditionTrue
	}
	if message != nil {
		c.Message = strings.ReplaceAll(message.Error(), "\n", contract.AgentMessageSeparator)
	}
	return c
}

// tell writes the condition to the Node, unless the Node has it, or has had another message of the reason for a short
// time only.
func (n *ownNode) tell(ctx context.Context, c corev1.NodeCondition, now time.Time) error {
	before, err := n.condition()
	if err != nil {
		return err
	}
	same := before.Status == c.Status && before.Reason == c.Reason
	if same && (before.Message == c.Message || now.Sub(before.LastHeartbeatTime.Time) < messagePeriod) {
		return nil
	}
	c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now), before.LastTransitionTime
	if before.Status != c.Status {
		c.LastTransitionTime = c.LastHeartbeatTime
	}
	patch, err := patchOf(c)
	if err != nil {
		return err
	}
	if _, err := n.client.CoreV1().Nodes().PatchStatus(ctx, n.name, patch); err != nil {
		return fmt.Errorf("write the condition %s of Node %s: %w", c.Type, n.name, err)
	}
	return nil
}

// patchOf replaces the Node's condition of that type. The JSON of a [corev1.NodeCondition] would leave out an empty
// message, and so leave the Node the former one.
func patchOf(c corev1.NodeCondition) ([]byte, error) {
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
		"lastHeartbeatTime": c.LastHeartbeatTime, "lastTransitionTime": c.LastTransitionTime,
	}}}})
}

// condition is the one that the Node has; the zero one if it has none.
func (n *ownNode) condition() (corev1.NodeCondition, error) {
	node, err := n.object()
	if err != nil {
		return corev1.NodeCondition{}, err
	}
	return conditionAmong(node.Status.Conditions), nil
}

// conditionAmong is the agent's own; the zero one if it is not there.
func conditionAmong(conditions []corev1.NodeCondition) corev1.NodeCondition {
	for _, c := range conditions {
		if c.Type == contract.AgentCondition {
			return c
		}
	}
	return corev1.NodeCondition{}
}
