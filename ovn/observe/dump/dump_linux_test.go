package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/hits"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

func recordsOf(t *testing.T, text []byte) (records []api.DumpRecord) {
	t.Helper()
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var record api.DumpRecord
		if err := decoder.Decode(&record); errors.Is(err, io.EOF) {
			return records
		} else if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		records = append(records, record)
	}
}

// TestRowsWithoutSecrets: every row of a real database is there, in JSON of its own, and no secret.
func TestRowsWithoutSecrets(t *testing.T) {
	server := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	client := ovsdbtest.Connect(t, ovsdbtest.Northbound(t), server.Endpoint)
	const switches = portion + 7
	options := libovsdb.OvsMap{GoMap: map[any]any{"ipsec_psk": "hunter2", "mac_prefix": "0a:58:00",
		"requested-tnl-key": "7", "note": "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"}}
	operations := []libovsdb.Operation{
		{Op: libovsdb.OperationInsert, Table: nb.SSLTable, UUIDName: "ssl",
			Row: libovsdb.Row{"private_key": "/etc/hunter2", "certificate": "c", "ca_cert": "a"}},
		{Op: libovsdb.OperationInsert, Table: nb.NBGlobalTable,
			Row: libovsdb.Row{"options": options, "ssl": libovsdb.UUID{GoUUID: "ssl"}}},
	}
	for range switches {
		operations = append(operations, libovsdb.Operation{Op: libovsdb.OperationInsert, Table: nb.LogicalSwitchTable,
			Row: libovsdb.Row{"name": "l1", "ports": libovsdb.OvsSet{GoSet: []any{}}}})
	}
	if _, err := client.Transact(t.Context(), operations...); err != nil {
		t.Fatal(err)
	}
	config := ovsdb.Config{Endpoints: server.Endpoint, Logger: ovsdbtest.Logger(t)}
	var out bytes.Buffer
	if err := Database(t.Context(), config, "OVN_Northbound", NewWriter(&out, MaxSize)); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, record := range recordsOf(t, out.Bytes()) {
		count[record.Table]++
		if record.Table == nb.NBGlobalTable {
			want := map[string]any{"ipsec_psk": "[left out]", "mac_prefix": "0a:58:00", "requested-tnl-key": "7",
				"note": "[left out]"}
			if !reflect.DeepEqual(record.Row["options"], want) || record.Row["nb_cfg"] != 0.0 {
				t.Errorf("NB_Global: %v", record.Row)
			}
		}
	}
	if count[nb.LogicalSwitchTable] != switches || count[nb.SSLTable] != 0 || strings.Contains(out.String(), "hunter2") {
		t.Errorf("there are %v", count)
	}

	out.Reset()
	writer := NewWriter(&out, 10_000)
	err := Database(t.Context(), config, "OVN_Northbound", writer)
	writer.End(err)
	all := recordsOf(t, out.Bytes())
	if !errors.Is(err, errFull) || out.Len() > 11_000 || !strings.Contains(all[len(all)-1].Error, "ends here") {
		t.Errorf("%v after %d bytes: %+v", err, out.Len(), all[len(all)-1])
	}
	if err := Database(t.Context(), config, "OVN_Southbound", NewWriter(io.Discard, MaxSize)); err == nil ||
		!strings.Contains(err.Error(), "OVN_Southbound") {
		t.Errorf("of a database that the server has not: %v", err)
	}
}

// TestMetricsOfAgents: those that answer are told, and why the others do not.
func TestMetricsOfAgents(t *testing.T) {
	nodes := []hits.Node{{Name: "l1", Address: "x"}, {Name: "l2", Address: "x"}, {Name: "l3"}, {Name: "l4", Address: "x"}}
	dial := func(_ context.Context, node hits.Node) (net.Conn, error) {
		if node.Name == "l2" {
			return nil, errors.New("away")
		}
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			text := "weft_up{token=\"hunter2\"} 1\n"
			if node.Name == "l4" {
				text = strings.Repeat("x", maxMetrics+1)
			}
			_, _ = io.WriteString(theirs, text) // who asked may be gone
		}()
		return ours, nil
	}
	var out bytes.Buffer
	if err := Agents(t.Context(), nodes, dial, NewWriter(&out, MaxSize)); err != nil {
		t.Fatal(err)
	}
	records := recordsOf(t, out.Bytes())
	slices.SortFunc(records, func(a, b api.DumpRecord) int { return strings.Compare(a.Node, b.Node) })
	want := []api.DumpRecord{{Node: "l1", Metrics: "weft_up{token=[left out]} 1\n"}, {Node: "l2", Error: "away"},
		{Node: "l3", Error: hits.ErrNoAddress.Error()}, {Node: "l4", Error: "x answers with more than 2097152 bytes"}}
	if !reflect.DeepEqual(records, want) {
		t.Errorf("got %+v, want %+v", records, want)
	}
}
