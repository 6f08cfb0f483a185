package southbound

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// FuzzMessages: a stream of objects is cut where encoding/json cuts it, however its bytes come.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{`{"a":"}\"{"}{"b":[{},[1]]}`, `{}`, `{"x":"\\"}{"y":"\\\""}`, `[1][2]`, ` {} `,
		`{"\u007b":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want [][]byte
		decoder := json.NewDecoder(bytes.NewReader(text))
		for {
			var raw json.RawMessage
			if err := decoder.Decode(&raw); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Skip("no JSON")
				}
				break
			}
			if raw[0] != '{' && raw[0] != '[' {
				t.Skip("no object")
			}
			want = append(want, raw)
		}
		for name, from := range map[string]io.Reader{"at once": bytes.NewReader(text),
			"byte by byte": iotest.OneByteReader(bytes.NewReader(text))} {
			m := &messages{from: from}
			var got [][]byte
			for {
				text, err := m.next()
				if err != nil {
					break
				}
				got = append(got, slices.Clone(bytes.TrimSpace(text)))
			}
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}
