package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Get gives a row of the replica by its UUID. What it returns is the caller's to read, not to
// change.
func Get[T any](c *Client, uuid string) (*T, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.cache.types[reflect.TypeFor[T]()]
	if t == nil {
		return nil, false
	}
	if r := t.rows[uuid]; r != nil {
		return r.full().(*T), true
	}
	return nil, false
}

// List gives the rows of T's table that keep accepts, all where it is nil, in no order. They are
// the caller's to read, not to change.
func List[T any](c *Client, keep func(*T) bool) []*T {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.cache.types[reflect.TypeFor[T]()]
	if t == nil {
		return nil
	}
	var list []*T
	for _, r := range t.rows {
		if model := r.full().(*T); keep == nil || keep(model) {
			list = append(list, model)
		}
	}
	return list
}

// full is the row's model with its sets in place.
func (r *row) full() any {
	if !slices.ContainsFunc(r.sets, func(s map[string]struct{}) bool { return len(s) > 0 }) {
		return r.model
	}
	value := reflect.New(r.table.goType)
	value.Elem().Set(reflect.ValueOf(r.model).Elem())
	for i, column := range r.table.sets {
		*value.Elem().Field(column.field).Addr().Interface().(*[]string) = slices.Sorted(maps.Keys(r.sets[i]))
	}
	return value.Interface()
}

// Changed is a channel that is closed when the replica next changes, or the connection comes or
// goes.
func (c *Client) Changed() <-chan struct{} {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changed
}

// WaitFor returns nil as soon as condition, which may look into the replica, holds; it is asked at
// once and after each change.
func (c *Client) WaitFor(ctx context.Context, condition func() bool) error {
	for {
		changed := c.Changed()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-c.ended:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Sync returns once the replica has all that the server had done when Sync was called. The server tells its clients of
// changes before it takes their next requests, so the answer to an echo comes after them. An error says that the
// connection was lost.
func (c *Client) Sync(ctx context.Context) error {
	s, err := c.connection(ctx)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, "echo", nil)
	return err
}

// connection waits for a session.
func (c *Client) connection(ctx context.Context) (*session, error) {
	var s *session
	err := c.WaitFor(ctx, func() bool {
		c.mu.RLock()
		defer c.mu.RUnlock()
		s = c.session
		return s != nil
	})
	if err != nil && err != ErrClosed {
		err = fmt.Errorf("wait for a server of %s at %s: %w", c.config.Model.Name(), c.config.Endpoints, err)
	}
	return s, err
}

// Transact commits operations of the caller's own, on rows that no engine manages. The error is
// an *OperationError when the server refused them.
func (c *Client) Transact(ctx context.Context, operations ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	s, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	params := appendString(nil, c.config.Model.Name())
	for _, operation := range operations {
		text, err := json.Marshal(operation)
		if err != nil {
			return nil, fmt.Errorf("write a %s on table %s: %w", operation.Op, operation.Table, err)
		}
		params = append(append(params, ','), text...)
	}
	text, err := s.call(ctx, "transact", params)
	if err != nil {
		return nil, fmt.Errorf("transact on %s: %w", c.config.Model.Name(), err)
	}
	var results []ovsdb.OperationResult
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, fmt.Errorf("read the answer to a transaction: %w", err)
	}
	for _, r := range results {
		if r.Error != "" {
			return results, &OperationError{r.Error, r.Details}
		}
	}
	return results, nil
}
