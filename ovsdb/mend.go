package ovsdb

import (
	"context"
	"slices"
)

// mender puts sets right.
type mender struct {
	client   *Client
	audit    *audit
	pipeline *pipeline
}

// mend puts values of sets right. What the server refuses is logged and left as it is, until it
// changes or all is replaced.
func (m *mender) mend(ctx context.Context, pairs []pair) error {
	for part := range slices.Chunk(pairs, batchOperations) {
		if err := m.mendTogether(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// mendTogether is mend by one transaction, or by ever smaller ones until what is refused stands
// alone.
func (m *mender) mendTogether(ctx context.Context, pairs []pair) error {
	b := newBatch()
	for _, p := range pairs {
		b.touch(p, &planned{})
	}
	m.pipeline.send(b)
	if !b.sent {
		return nil
	}
	b, o, err := m.pipeline.arrive(ctx)
	if err != nil {
		return err
	}
	m.pipeline.finish(b, o)
	if o.refused == nil {
		return nil
	}
	if len(pairs) == 1 {
		at := pairs[0].at
		m.client.log.Warn("the database refuses to correct a set", "table", at.column.table.name, "row", at.row,
			"column", at.column.name, "value", pairs[0].value, "error", o.refused)
		return nil
	}
	half := len(pairs) / 2
	if err := m.mendTogether(ctx, pairs[:half]); err != nil {
		return err
	}
	return m.mendTogether(ctx, pairs[half:])
}

// sweep removes strays from all sets. The members of refused owners stay: their rows are still
// those of before.
func (m *mender) sweep(ctx context.Context, changes []Change, refused map[Owner]error) error {
	spared := map[place]bool{}
	for i := range changes {
		if _, is := refused[changes[i].Owner]; !is {
			continue
		}
		for _, of := range changes[i].Memberships {
			if t := m.client.cache.tables[of.Table]; t != nil && t.column(of.Column) != nil {
				spared[place{of.UUID, t.column(of.Column)}] = true
			}
		}
	}
	spares := func(p pair) bool {
		if p.at.column.ref == "" {
			return spared[p.at]
		}
		_, is := refused[m.client.cache.referred(p.at.column, p.value).owner]
		return is
	}
	var strays []pair
	m.client.mu.RLock()
	m.audit.strays(func(p pair) {
		if !spares(p) {
			strays = append(strays, p)
		}
	})
	m.client.mu.RUnlock()
	return m.mend(ctx, strays)
}
