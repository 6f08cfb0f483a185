package bench

import (
	"bufio"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// bareClient speaks just enough OVSDB to write.
type bareClient struct {
	database string
	conn     net.Conn
	encoder  *json.Encoder
	decoder  *json.Decoder
	id       int
}

// dialBare is for a database by its name in its schema.
func dialBare(b testing.TB, remote, database string) *bareClient {
	b.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(remote, "unix:"))
	if err != nil {
		b.Fatal(err)
	}
	return &bareClient{database: database, conn: conn, encoder: json.NewEncoder(conn),
		decoder: json.NewDecoder(bufio.NewReaderSize(conn, 1<<20))}
}

// transact returns the outcome of each operation, none of which has failed.
func (c *bareClient) transact(b testing.TB, operations []any) []ovsdb.OperationResult {
	b.Helper()
	c.id++
	request := map[string]any{"id": c.id, "method": "transact", "params": append([]any{c.database}, operations...)}
	if err := c.encoder.Encode(request); err != nil {
		b.Fatal(err)
	}
	for {
		var answer struct {
			ID     any
			Method string
			Result []ovsdb.OperationResult
		}
		if err := c.decoder.Decode(&answer); err != nil {
			b.Fatal(err)
		}
		if answer.Method == "echo" {
			if err := c.encoder.Encode(map[string]any{"id": answer.ID, "result": []any{}, "error": nil}); err != nil {
				b.Fatal(err)
			}
			continue
		}
		for _, result := range answer.Result {
			if result.Error != "" {
				b.Fatalf("the bare client's transaction: %s: %s", result.Error, result.Details)
			}
		}
		return answer.Result
	}
}
