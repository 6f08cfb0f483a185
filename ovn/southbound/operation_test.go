package southbound

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// FuzzOperations: whatever a node asks for, the guard has an opinion of it, and what it sends on reads as what it has
// judged.
func FuzzOperations(f *testing.F) {
	for _, seed := range []string{
		`{"op":"update","table":"Controller_Event","where":[["_uuid","==",["uuid","x"]]],"row":{}}`,
		`{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","x"]]],"row":{"options":["map",[["a","b"],["a","c"]]],"chassis":["set",[]]}}`,
		`{"op":"mutate","table":"Port_Binding","where":[["_uuid","==",["uuid","x"]]],"mutations":[["options","delete",["set",["a",1]]]]}`,
		`{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":1e3,"mac":"x"}}`,
		`{"op":"insert","table":"MAC_Binding","uuid":"6b0d6a6e-3a0e-4d0a-9d39-77656674b0d5","row":{"logical_port":"a"}}`,
		`{"op":"insert","table":"Encap","uuid-name":"e","row":{"chassis_name":"l2","type":"geneve","ip":"flow","options":["map",[["dst_port","53"]]]}}`,
		`{"op":"insert","table":"MAC_Binding","row":{"logical_port":"a","datapath":["uuid","x"]}}`,
		`{"op":"delete","table":"Encap","where":[null]}`, `{"op":"wait","timeout":0}`, `{"op":7,"row":null,"where":{}}`,
		`{"op":"select","op":"delete","table":"Chassis","where":[]}`,
	} {
		f.Add([]byte(seed))
	}
	database := ovsdbtest.Southbound(f)
	known := &replica{Client: ovsdbtest.Connect(f, database, ovsdbtest.Memory(f, database), tables...)}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := object{}
		if json.Unmarshal(text, &o) != nil {
			t.Skip("no object")
		}
		judged, err := newOperation(o)
		if err != nil {
			return
		}
		verdict := check(known, "l2", judged)
		sent, err := json.Marshal(judged)
		if err != nil {
			t.Fatal(err)
		}
		again := object{}
		if err := json.Unmarshal(sent, &again); err != nil {
			t.Fatal(err)
		}
		read, err := newOperation(again)
		if err != nil || read.op != judged.op || read.table != judged.table || !reflect.DeepEqual(read.written(),
			judged.written()) {
			t.Fatalf("%s: judged %+v, sent %s: %v", text, judged, sent, err)
		}
		if other := check(known, "l2", read); (other == nil) != (verdict == nil) {
			t.Fatalf("%s: %v, and what is sent %s: %v", text, verdict, sent, other)
		}
	})
}
