package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/test/reference"
)

const chartSchema = "../release/chart/values.schema.json"

// ownKeys are those that the chart itself gives its pods.
var ownKeys = []string{"config", "identity", "kubeconfig", "listen", "ovn-ca", "ovn-certificate", "ovn-private-key",
	"tunnel-ca", "tunnel-certificate", "tunnel-private-key"}

// ownKeysOfNode are the same for pods of the agent. Its certificate is another one on each host.
var ownKeysOfNode = []string{"config", "data-dir", "kubeconfig", "node-name"}

// TestReferenceChart: the schema of the chart's values has each key of the parts that run as its pods, as --help tells
// it.
func TestReferenceChart(t *testing.T) {
	written, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(written, &schema); err != nil {
		t.Fatal(err)
	}
	observe := observeCommand()
	// Its sockets are the values observe.sockets, as the pod must have their folder.
	keysOfSockets := []string{"ovn-northbound", "ovn-southbound"}
	for part, keys := range map[string]map[string]any{
		"controller": schemaOfKeys(controllerCommand(), ownKeys),
		"observe":    schemaOfKeys(observe, append(keysOfSockets, ownKeys...)),
		"node":       schemaOfKeys(nodeCommand(), ownKeysOfNode),
	} {
		properties := schema["properties"].(map[string]any)[part].(map[string]any)["properties"].(map[string]any)
		properties["config"] = keys
	}
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		t.Fatal(err)
	}
	switch {
	case *update:
		if err := os.WriteFile(chartSchema, made.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	case !bytes.Equal(written, made.Bytes()):
		t.Errorf("%s does not have the keys that the code has; `make generate` writes it anew", chartSchema)
	}
}

// schemaOfKeys describes a command's keys as a JSON schema does, which refuses all others.
func schemaOfKeys(cmd *cobra.Command, without []string) map[string]any {
	types := map[string]map[string]any{
		"string": {"type": "string"}, "int": {"type": "integer"}, "bool": {"type": "boolean"},
		"duration":    {"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`},
		"stringSlice": {"type": "array", "items": map[string]any{"type": "string"}},
	}
	properties := map[string]any{}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(without, f.Name) {
			return
		}
		key := map[string]any{"description": reference.Sentence(f.Usage)}
		for name, value := range types[f.Value.Type()] {
			key[name] = value
		}
		if value := defaultOf(f); value != "" {
			key["description"] = key["description"].(string) + " Default: " + value
		}
		properties[f.Name] = key
		names = append(names, f.Name)
	})
	slices.Sort(names)
	// Of a wrong key, the one has Helm say where it is, and the other which keys there are.
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false,
		"propertyNames": map[string]any{"enum": names},
		"description":   "Keys of `weft " + cmd.Name() + "`. docs/reference/keys.md has more about them."}
}
