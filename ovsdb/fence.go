package ovsdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Fence is where a database says which of several writers may write: a key of the external_ids of a table's only row.
// A writer that claims it leaves a value there that no other claim has, and each of its transactions begins with a
// wait for that value, with a timeout of 0. The server judges the wait within the transaction: what a former writer
// had under way, even in a socket's buffer while its process was stopped, is refused from the claim on.
//
// OVSDB's own locks (RFC 7047, 4.1.8 and 5.2.10) are no fence. ovsdb-server keeps them in its memory: another member
// of a cluster knows nothing of them and gives the same lock to somebody else, and a lock ends with its connection.
// A value in the database is ordered with all transactions, by the server or by RAFT's log.
type Fence struct {
	// Table has at most one row.
	Table string
	Key   string
	// Writer is what the value begins with, for people.
	Writer string
	// Entitled says why this writer may not write, nil if it may. It is asked after the row was read and before
	// it is changed: so who asks it and is told yes has seen the claim of everybody who was entitled before.
	Entitled func(context.Context) error
}

// fence is the one that an engine's transactions need.
type fence struct {
	Fence
	value string // "" when somebody else has it
}

// Claim makes this engine the only one that may write; all its transactions need the fence from then on. Whatever
// others have committed before is in the replica when Claim returns. It writes nothing where nobody else has claimed
// the fence since this engine did. An error is that of Entitled, or of the connection.
func (e *Engine) Claim(ctx context.Context, f Fence) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	if e.pipeline.fence == nil {
		e.pipeline.fence = &fence{}
	}
	e.pipeline.fence.Fence = f
	for {
		anew, err := e.pipeline.fence.claim(ctx, e.client)
		if anew { // others may have written
			e.forget()
		}
		if !errors.Is(err, errOutrun) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// errOutrun says that the fence's row changed between the read and the write.
var errOutrun = errors.New("the row of the fence has changed meanwhile")

// claim reads the row, asks whether it may, and writes unless the row has changed since. anew is false where the fence
// was this writer's already.
func (f *fence) claim(ctx context.Context, client *Client) (anew bool, err error) {
	failed := func(err error) (bool, error) {
		return false, fmt.Errorf("claim %s in table %s: %w", f.Key, f.Table, err)
	}
	results, err := client.Transact(ctx, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: f.Table,
		Columns: []string{"_uuid", externalIDs}})
	if err != nil {
		return failed(err)
	}
	var row ovsdb.Row
	former := ""
	if len(results) > 0 && len(results[0].Rows) > 0 {
		row = results[0].Rows[0]
		if ids, ok := row[externalIDs].(ovsdb.OvsMap); ok {
			former, _ = ids.GoMap[f.Key].(string)
		}
	}
	if former != "" && former == f.value {
		return false, nil
	}
	f.value = ""
	if err := f.Entitled(ctx); err != nil {
		return failed(err)
	}
	value := f.Writer + "/" + uuid.NewString()
	_, err = client.Transact(ctx, f.entry(row, value)...)
	var refusal *OperationError
	if errors.As(err, &refusal) {
		// Without a row there is no wait: somebody else may have made the only one.
		if row == nil && refusal.Kind == "constraint violation" || refusal.Kind == timedOut {
			return false, errOutrun
		}
	}
	if err != nil {
		return failed(err)
	}
	f.value = value
	client.stats.transactions.WithLabelValues("committed").Inc()
	client.stats.rows.WithLabelValues(f.Table, "claim").Inc()
	client.log.Info("claimed the database", "former", former)
	return true, nil
}

// entry is the transaction that leaves a value in the row, which makes the row where there is none.
func (f *fence) entry(row ovsdb.Row, value string) []ovsdb.Operation {
	entry := ovsdb.OvsMap{GoMap: map[any]any{f.Key: value}}
	if row == nil {
		return []ovsdb.Operation{{Op: ovsdb.OperationInsert, Table: f.Table, Row: ovsdb.Row{externalIDs: entry}}}
	}
	same := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, row["_uuid"])}
	now := 0
	return []ovsdb.Operation{
		{Op: ovsdb.OperationWait, Table: f.Table, Where: same, Timeout: &now, Columns: []string{externalIDs}, Until: "==",
			Rows: []ovsdb.Row{{externalIDs: row[externalIDs]}}},
		{Op: ovsdb.OperationMutate, Table: f.Table, Where: same, Mutations: []ovsdb.Mutation{
			*ovsdb.NewMutation(externalIDs, ovsdb.MutateOperationDelete, ovsdb.OvsSet{GoSet: []any{f.Key}}),
			*ovsdb.NewMutation(externalIDs, ovsdb.MutateOperationInsert, entry),
		}},
	}
}

// appendWait adds the operation that fails unless the fence's value is there: a wait until there is a row that has it.
func (f *fence) appendWait(b []byte) []byte {
	b = append(b, `,{"op":"wait","timeout":0,"until":"!=","rows":[],"columns":["external_ids"],"table":`...)
	b = append(appendString(b, f.Table), `,"where":[["external_ids","includes",["map",[`...)
	return append(appendPairs(b, []string{f.Key, f.value}), "]]]]}"...)
}
