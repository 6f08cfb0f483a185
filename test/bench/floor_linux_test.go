package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/test/bench/ovsdblog"
)

// floorBatch is how many pods or Services the bare client sends in one transaction.
const floorBatch = 100

// ovsdbFloor writes the ports of pods and the load balancers of a Northbound into an empty one,
// with the JSON of the original, from a client that does nothing else: no cache, no comparison,
// one transaction after the other.
func ovsdbFloor(b testing.TB, db *ovsdblog.Database) (took time.Duration, transactions int) {
	b.Helper()
	nb := startNorthbound(b)
	defer nb.server.stop(b)
	client := dialBare(b, nb.remote, "OVN_Northbound")
	defer client.conn.Close()
	batches := [][]any{floorContainers(db)}
	batches = append(batches, floorMembers(db, "Logical_Switch", "ports", "Logical_Switch_Port", "Pod/")...)
	batches = append(batches, floorMembers(db, "Load_Balancer_Group", "load_balancer", "Load_Balancer", "Service/")...)
	began := time.Now()
	for _, operations := range batches {
		client.transact(b, operations)
	}
	return time.Since(began), len(batches)
}

// floorContainers are the sets that hold the rest, without their members.
func floorContainers(db *ovsdblog.Database) []any {
	var operations []any
	for _, table := range []string{"Logical_Switch", "Load_Balancer_Group"} {
		for id, row := range db.Tables[table] {
			operations = append(operations, map[string]any{"op": "insert", "table": table, "uuid": id,
				"row": map[string]any{"name": only(row["name"])}})
		}
	}
	return operations
}

func only(value ovsdblog.Value) string {
	for text := range value {
		return text
	}
	return ""
}

func floorMembers(db *ovsdblog.Database, container, column, table, owners string) [][]any {
	var batches [][]any
	var operations []any
	written := map[string]bool{} // some are in two containers
	for id, row := range db.Tables[container] {
		for member := range row[column] {
			if !strings.HasPrefix(owner(db.Tables[table][member]), owners) {
				continue
			}
			if !written[member] {
				written[member] = true
				operations = append(operations, map[string]any{"op": "insert", "table": table, "uuid": member,
					"row": db.Inserted[table][member]})
			}
			operations = append(operations, map[string]any{"op": "mutate", "table": container, "where": whereID(id),
				"mutations": []any{[]any{column, "insert", []any{"set", []any{[]string{"uuid", member}}}}}})
			if len(operations) >= 2*floorBatch {
				batches, operations = append(batches, operations), nil
			}
		}
	}
	if len(operations) > 0 {
		batches = append(batches, operations)
	}
	return batches
}

// listFloor is how long the API server takes to hand out, all at once and as protobuf, what a
// controller must know before it can write its last row.
func listFloor(b testing.TB, s *apiserver) (took time.Duration, size int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	paths := []string{"/api/v1/nodes", "/api/v1/namespaces", "/api/v1/pods", "/api/v1/services",
		"/apis/discovery.k8s.io/v1/endpointslices"}
	counts, errs := make([]countingWriter, len(paths)), make([]error, len(paths))
	var all sync.WaitGroup
	began := time.Now()
	for i, path := range paths {
		all.Go(func() {
			errs[i] = s.get(ctx, path+"?resourceVersion=0", "application/vnd.kubernetes.protobuf", &counts[i])
		})
	}
	all.Wait()
	took = time.Since(began)
	for i, err := range errs {
		if err != nil {
			b.Fatal(fmt.Errorf("bare lists: %w", err))
		}
		size += int(counts[i])
	}
	return took, size
}

type countingWriter int

func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}

var _ io.Writer = (*countingWriter)(nil)
