package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/ovn/hits"
)

// TestAgentsOfEarlierVersions: whatever stream an agent does not serve, it is of an earlier version.
func TestAgentsOfEarlierVersions(t *testing.T) {
	down := &tunnel.Error{Reason: tunnel.TargetDown}
	for err, want := range map[error]error{
		fmt.Errorf("dial: %w", &tunnel.Error{Reason: tunnel.NoTarget}): hits.ErrNoTarget,
		down: down,
		nil:  nil,
	} {
		if got := ofThisVersion(err); !errors.Is(got, want) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
