package ovsdb

import (
	"encoding/json"
	"net"
	"testing"
	"time"
)

// FuzzReceive: whatever a server says, a request has at most one answer, and that is the one which encoding/json reads
// there.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"result":{},"error":null}`, `{"error":null,"result":[1,{"result":2}],"id":1}`,
		`{"id":1,"error":{"error":"x","details":"y"},"result":null}`,
		`{"id":null,"method":"update3","params":["weft","0",{}]}`, `{"id":"echo","method":"echo","params":[]}`,
		`{"method":7,"id":1,"result":1}`,
		`{"id":1,"id":2,"result":1}`, `{"id":1}`, `{"id":"1","result":1}`, `[]`, `{"id":1,"result":"\u00"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		s := newSession(client, Endpoint{}, time.Second)
		s.notify = func(string, []byte) error { return nil }
		var answers []reply
		s.pending[1] = func(r reply) { answers = append(answers, r) }
		err := s.receive(text)
		if len(answers) > 1 || err != nil && len(answers) > 0 {
			t.Fatalf("%s: %d answers and error %v", text, len(answers), err)
		}
		var message map[string]json.RawMessage
		valid := json.Unmarshal(text, &message) == nil && message != nil
		if len(answers) == 0 || !valid {
			return
		}
		if string(message["id"]) != "1" {
			t.Errorf("%s is taken for the answer to request 1", text)
		}
		if failed := message["error"] != nil && string(message["error"]) != "null"; failed != (answers[0].err != nil) ||
			!failed && string(answers[0].result) != string(message["result"]) {
			t.Errorf("%s is read as %s, %v", text, answers[0].result, answers[0].err)
		}
	})
}
