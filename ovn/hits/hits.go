// Package hits counts the packets that meet the rules of network policies on the nodes.
//
// A rule is an ACL of the Northbound. ovn-northd makes logical flows of it, which name it by the first 32 bits
// of its UUID (external_ids:stage-hint), and ovn-controller makes OpenFlow flows of those, whose cookie is the
// first 32 bits of the logical flow's UUID. Open vSwitch counts what meets a flow, and the node's agent tells it.
//
// A connection's packets in the direction of its first one are counted, those of the other direction are not:
// OVN lets these pass without asking ACLs. Of two rules of a tier with the same match on the same pods, one
// counts for both.
package hits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovsdb"
)

// Node is one whose agent may be asked.
type Node struct {
	Name string
	// Address is HOST:PORT of its agent; "" where it takes no streams.
	Address string
}

// Config says whom to ask.
type Config struct {
	Northbound, Southbound ovsdb.Config
	// Dial opens a stream to the counters of a node's agent.
	Dial Dial
}

// Count is what a rule has met on a node.
type Count struct {
	Rule           explain.Mark
	Action         string
	Node           string
	Packets, Bytes uint64
}

// Counts are those of the rules that have flows on nodes, sorted by policy, rule and node.
type Counts struct {
	Counts []Count
	// Asked is how many nodes there are, and Unanswered are those without counts, by name.
	Asked      int
	Unanswered map[string]error
}

const (
	// parallel is how many nodes are asked at a time.
	parallel = 64
	// nodeTime is how long one of them may take.
	nodeTime = 5 * time.Second
)

// ErrNoAddress says what a node needs before its agent can be asked.
var ErrNoAddress = errors.New(
	"its agent takes no streams: give it tunnel-ca, tunnel-certificate and tunnel-private-key")

// ErrNoTarget is the error of a [Dial] to what the agent of an earlier version does not serve.
var ErrNoTarget = errors.New("its agent is of an earlier version, which cannot do this: upgrade the agent")

// Read asks the databases for rules, and the nodes for what their flows have counted. Nodes that do not answer are
// named.
func Read(ctx context.Context, config Config, nodes []Node) (Counts, error) {
	rules, err := readRules(ctx, config)
	if err != nil {
		return Counts{}, err
	}
	counts := Counts{Asked: len(nodes), Unanswered: map[string]error{}}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, node := range nodes {
		group.Go(func() error {
			found, err := ask(ctx, config.Dial, node, rules)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				counts.Unanswered[node.Name] = err
				return nil
			}
			counts.Counts = append(counts.Counts, found...)
			return nil
		})
	}
	_ = group.Wait() // a node's error is told as its own
	slices.SortFunc(counts.Counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Rule.Policy(), b.Rule.Policy()), cmp.Compare(RuleName(a.Rule), RuleName(b.Rule)),
			cmp.Compare(a.Node, b.Node))
	})
	return counts, nil
}

// ask adds up what the flows of each rule have counted on a node.
func ask(ctx context.Context, dial Dial, node Node, rules *rules) ([]Count, error) {
	if node.Address == "" {
		return nil, ErrNoAddress
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	found := map[int]*Count{}
	for cookies := range slices.Chunk(rules.cookies, contract.MaxCookies) {
		counters, err := dial.counters(ctx, node, cookies)
		if err != nil {
			return nil, err
		}
		for _, c := range counters {
			for _, i := range rules.of[c.Cookie] {
				if found[i] == nil {
					found[i] = &Count{Rule: rules.list[i].mark, Action: rules.list[i].action, Node: node.Name}
				}
				found[i].Packets += c.Packets
				found[i].Bytes += c.Bytes
			}
		}
	}
	list := make([]Count, 0, len(found))
	for _, c := range found {
		list = append(list, *c)
	}
	return list, nil
}

// RuleName is how a rule is told beside its policy.
func RuleName(m explain.Mark) string {
	switch {
	case m.Rule == "":
		return "isolation from " + m.Direction.String()
	case m.Port != "":
		return fmt.Sprintf("%s, port %s", m.Rule, m.Port)
	}
	return m.Rule
}
