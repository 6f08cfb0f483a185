package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/doctor"
	"github.com/weftnet/weft/ovn/flows"
)

// Types of a flow's events. The first two are those of Kubernetes' watches.
const (
	flowAdded    = "ADDED"
	flowDeleted  = "DELETED"
	flowsRefused = "REFUSED"
)

// deny is the action of a rule that refuses.
const deny = "Deny"

// flowEvent is a flow that is there or has ended, or what a policy's rule has refused.
type flowEvent struct {
	Type string `json:"type"`
	// Object is an api.Flow, or a refusal.
	Object any `json:"object"`
	// initial says that the flow may have begun before the user has asked. JSON does not tell: a watch of Kubernetes
	// begins with ADDED, too.
	initial bool
}

// refusal is how many packets a rule of a policy has refused since it was last asked for.
type refusal struct {
	Policy  string `json:"policy"`
	Rule    string `json:"rule"`
	Action  string `json:"action"`
	Packets uint64 `json:"packets"`
}

// counter is what a rule has met on a node.
type counter struct{ policy, rule, node string }

// flowKey is what makes a connection that one and no other.
type flowKey struct {
	protocol, source, destination, service string
}

func keyOf(f *api.Flow) flowKey {
	k := flowKey{protocol: f.Protocol, source: flows.AddressText(f.Source.Address, f.Source.Port),
		destination: flows.AddressText(f.Destination.Address, f.Destination.Port)}
	if f.Service != nil {
		k.service = flows.AddressText(f.Service.Address, f.Service.Port)
	}
	return k
}

// follower remembers what was told, and tells what has changed since.
type follower struct {
	out   screen
	write func(io.Writer, []flowEvent) error

	order   []flowKey // of there
	there   map[flowKey]api.Flow
	whole   bool               // an answer had all flows, so others have begun after it
	refused map[counter]uint64 // what rules have refused in all; nil before the first look
	silent  bool               // a node has not told its counts once
	without bool               // it was told that refusals cannot be read
	left    bool               // it was told that flows of own nodes are left out
}

func newFollower(out screen, output string) *follower {
	write := map[string]func(io.Writer, []flowEvent) error{"json": writeJSONEvents, "yaml": writeYAMLEvents}[output]
	if write == nil {
		write = func(w io.Writer, events []flowEvent) error { return writeFlowEvents(w, events, output == "wide") }
	}
	return &follower{out: out, write: write, there: map[flowKey]api.Flow{}}
}

// follow tells what changes until ctx is done.
func (q *flowsQuestion) follow(ctx context.Context, f *follower, errs io.Writer) error {
	return watchStatus(ctx, q.interval, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, q.timeout)
		defer cancel()
		_, flows, err := q.ask(ctx)
		if err != nil {
			return err
		}
		if !f.left {
			f.left = flows.FromOwnNode > 0
			fmt.Fprint(errs, leftOut(flows))
		}
		events := f.changes(flows)
		if q.filter == "" { // a rule does not say whose packets it has refused
			_, hits, err := askHits(ctx, q.config, q.namespace)
			if err != nil && !f.without {
				f.without = true
				fmt.Fprintln(errs, "weft: what policies refuse is not shown:", err)
			}
			if err == nil {
				events = append(events, f.refusals(hits)...)
			}
		}
		if err := f.write(f.out, events); err != nil {
			return err
		}
		if !isWhole(flows) {
			fmt.Fprint(errs, missing(flows))
			return &exitError{code: doctor.ExitWarning}
		}
		return nil
	}, errs)
}

// changes are the flows that have begun and ended since the last answer. Of an answer that is not whole nothing has
// ended: a flow may be missing because its node has not answered.
func (f *follower) changes(answer *api.NetworkFlows) (events []flowEvent) {
	now := make(map[flowKey]struct{}, len(answer.Flows))
	for _, flow := range answer.Flows {
		key := keyOf(&flow)
		now[key] = struct{}{}
		if _, before := f.there[key]; !before {
			events = append(events, flowEvent{Type: flowAdded, Object: flow, initial: !f.whole})
			f.order = append(f.order, key)
		}
		f.there[key] = flow
	}
	if !isWhole(answer) {
		return events
	}
	f.whole = true
	lasting := f.order[:0]
	for _, key := range f.order {
		if _, still := now[key]; still {
			lasting = append(lasting, key)
			continue
		}
		events = append(events, flowEvent{Type: flowDeleted, Object: f.there[key]})
		delete(f.there, key)
	}
	f.order = lasting
	return events
}

// refusals are what rules have refused since the last look, node by node: a node that does not answer keeps its count.
// The first look shows nothing: nobody knows since when its counts are. So it is with what a node tells first after
// nodes have not answered. A count that is smaller than before has begun anew.
func (f *follower) refusals(hits *api.PolicyHitsList) (events []flowEvent) {
	first := f.refused == nil
	if first {
		f.refused = map[counter]uint64{}
	}
	for _, rule := range hits.Items {
		if rule.Action != deny {
			continue
		}
		r := refusal{Policy: rule.Policy, Rule: rule.Rule, Action: rule.Action}
		for _, on := range rule.Nodes {
			c := counter{rule.Policy, rule.Rule, on.Node}
			known, counted := f.refused[c]
			f.refused[c] = on.Packets
			switch {
			case !counted && (first || f.silent):
			case on.Packets >= known:
				r.Packets += on.Packets - known
			default:
				r.Packets += on.Packets
			}
		}
		if r.Packets > 0 {
			events = append(events, flowEvent{Type: flowsRefused, Object: r})
		}
	}
	f.silent = f.silent || hits.NodesUnanswered > 0
	return events
}

func writeJSONEvents(w io.Writer, events []flowEvent) error {
	encoder := json.NewEncoder(w)
	for _, e := range events {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

func writeYAMLEvents(w io.Writer, events []flowEvent) error {
	for _, e := range events {
		text, err := yaml.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
