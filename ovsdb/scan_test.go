package ovsdb

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// FuzzScanner holds the scanner against encoding/json: whatever that reads, it must walk over, and
// whatever it takes for a string must be the same one.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e3,true,null,"x\"\u00e9\\"],"b":{}}`, `["set",[["uuid","x"]]]`, `"\ud800"`, `[]`, `{"":""}`, `[1,]`,
		`{"a"}`, "\"\xff\"", `"\`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var value any
		valid := json.Unmarshal(text, &value) == nil
		s := &scanner{text: text}
		s.skip()
		if valid && s.err != nil {
			t.Fatalf("%q: %v", text, s.err)
		}
		want, isString := value.(string)
		if !valid || !isString || !utf8.Valid(text) {
			return
		}
		s = &scanner{text: text}
		if got := s.str(); s.err != nil || got != want {
			t.Fatalf("%q reads %q, %v instead of %q", text, got, s.err, want)
		}
		var again string
		want = strings.ReplaceAll(want, "\x00", "\ufffd")
		if err := json.Unmarshal(appendString(nil, value.(string)), &again); err != nil || again != want {
			t.Fatalf("%q is written so that it reads %q, %v", want, again, err)
		}
	})
}

func TestFramerCutsAnywhere(t *testing.T) {
	messages := []string{`{"a":"}{\"\\"}`, `{}`, `{"b":[{"c":"é"},[]]}`,
		`{"d":"` + string(bytes.Repeat([]byte("x"), 5*frameChunk)) + `"}`, `{"e":1}`}
	var stream bytes.Buffer
	for _, m := range messages {
		stream.WriteString(m + "\n")
	}
	text := stream.Bytes()
	for name, reader := range map[string]io.Reader{
		"at once": bytes.NewReader(text), "a byte": iotest.OneByteReader(bytes.NewReader(text)),
		"halves": iotest.HalfReader(bytes.NewReader(text)),
	} {
		f := &framer{reader: reader}
		var got [][]byte
		for range messages {
			m, err := f.next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, m)
		}
		for i, m := range messages { // only now: a message must survive the next
			if string(got[i]) != m {
				t.Errorf("%s: message %d is %.40q instead of %.40q", name, i, got[i], m)
			}
		}
		if _, err := f.next(); err == nil {
			t.Errorf("%s: no error at the end", name)
		}
		f = &framer{reader: bytes.NewReader([]byte("{} HTTP/1.1 400 Bad Request"))}
		f.next()
		if m, err := f.next(); err == nil {
			t.Errorf("%q is taken for a message", m)
		}
		if cap(f.buffer) > 4*frameChunk {
			t.Errorf("%s: the buffer stays at %d bytes", name, cap(f.buffer))
		}
	}
}
