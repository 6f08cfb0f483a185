package ovn

import (
	"context"
	"testing"
	"time"

	"github.com/weftnet/weft/ovn/objects"
)

func TestQueue(t *testing.T) {
	q := newQueue()
	q.collect(true)
	a, b := objects.Key{Kind: objects.PodKind, Name: "default/a"}, objects.Key{Kind: objects.NodeKind, Name: "b"}
	q.add(a, false)
	q.add(b, false)
	q.add(a, true)
	q.add(a, false)
	if q.len() != 2 {
		t.Errorf("depth %d, want 2", q.len())
	}
	entries := q.take(context.Background())
	if len(entries) != 2 || !entries[a].fresh || entries[b].fresh {
		t.Errorf("took %v", entries)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if entries := q.take(ctx); entries != nil {
		t.Errorf("took %v of an empty queue", entries)
	}
	q.add(b, false)
	q.collect(false)
	q.add(a, true)
	if q.len() > 0 {
		t.Error("a standby collects")
	}
	if entries := q.take(ctx); entries != nil {
		t.Errorf("took %v of a drained queue", entries)
	}
}

// TestTakeHonoursTheEnd: a leader that was told to stop takes no more work, even if there is some.
func TestTakeHonoursTheEnd(t *testing.T) {
	for range 100 {
		q := newQueue()
		q.collect(true)
		q.add(objects.Key{Kind: objects.PodKind, Name: "default/a"}, false)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if entries := q.take(ctx); entries != nil {
			t.Fatalf("took %v after the end", entries)
		}
	}
}
