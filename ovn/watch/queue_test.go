package watch

import (
	"context"
	"testing"
	"time"

	"github.com/weftnet/weft/ovn/objects"
)

func TestQueue(t *testing.T) {
	q := NewQueue()
	q.Collect(true)
	a, b := objects.Key{Kind: objects.PodKind, Name: "default/a"}, objects.Key{Kind: objects.NodeKind, Name: "b"}
	q.Add(a, false)
	q.Add(b, false)
	q.Add(a, true)
	q.Add(a, false)
	if q.Len() != 2 {
		t.Errorf("depth %d, want 2", q.Len())
	}
	entries := q.Take(context.Background())
	if len(entries) != 2 || !entries[a].Fresh || entries[b].Fresh {
		t.Errorf("took %v", entries)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if entries := q.Take(ctx); entries != nil {
		t.Errorf("took %v of an empty queue", entries)
	}
	q.Add(b, false)
	q.Collect(false)
	q.Add(a, true)
	if q.Len() > 0 {
		t.Error("a standby collects")
	}
	if entries := q.Take(ctx); entries != nil {
		t.Errorf("took %v of a drained queue", entries)
	}
}

// TestTakeHonoursTheEnd: a leader that was told to stop takes no more work, even if there is some.
func TestTakeHonoursTheEnd(t *testing.T) {
	for range 100 {
		q := NewQueue()
		q.Collect(true)
		q.Add(objects.Key{Kind: objects.PodKind, Name: "default/a"}, false)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if entries := q.Take(ctx); entries != nil {
			t.Fatalf("took %v after the end", entries)
		}
	}
}
