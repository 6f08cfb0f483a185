package unixctl

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// FuzzRun wants an answer or a reason, in time, of whatever a daemon says: an answer is the word of result, and a
// daemon that refuses, or says neither, has given none.
func FuzzRun(f *testing.F) {
	for _, text := range []string{
		`{"id":0,"result":"connected\n","error":null}`, `{"id":0,"result":null,"error":"no such command"}`,
		`{"id":0,"error":""}`,
		`{}`, `null`, `[]`, `{"result":7}`, `{"id":0,"result":null,"error":null}`, `{"id":1,"result":"another's"}`,
		`{"result":"cut`,
		`{"RESULT":"x"}`, `{"result":"a","result":"b"}`, "{\"result\":\"\xff\",\"id\":0}", strings.Repeat("[", 20000), "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			var request json.RawMessage
			if json.NewDecoder(theirs).Decode(&request) == nil {
				_, _ = theirs.Write(text) // the other side may have had enough
			}
		}()
		deadline := time.AfterFunc(nodetest.Patience, func() { panic("no end") })
		defer deadline.Stop()
		answer, err := Run(t.Context(), ours, "status")
		var reply struct{ ID, Result, Error any }
		read := json.NewDecoder(io.LimitReader(bytes.NewReader(text), maxAnswer)).Decode(&reply)
		want, isText := reply.Result.(string)
		number, isNumber := reply.ID.(float64)
		given := read == nil && isText && reply.Error == nil && isNumber && number == 0
		if given != (err == nil) || given && answer != want || !given && answer != "" {
			t.Fatalf("%q is answer %q, %v; want %q, %v", text, answer, err, want, given)
		}
		if err != nil && err.Error() == "" {
			t.Fatalf("%q is refused without a reason", text)
		}
	})
}
