package bounded

import (
	"io"
	"strings"
	"testing"
)

// TestBuffer: what is copied into it is bounded, too.
func TestBuffer(t *testing.T) {
	for _, c := range []struct {
		text, kept string
		over       bool
	}{{"", "", false}, {"abc", "abc", false}, {"abcd", "abc", true}, {strings.Repeat("a", 1<<20), "aaa", true}} {
		told := false
		b := &Buffer{Most: 3, Full: func() { told = true }}
		if n, err := io.Copy(b, strings.NewReader(c.text)); err != nil || n != int64(len(c.text)) {
			t.Errorf("of %d bytes it took %d: %v", len(c.text), n, err)
		}
		if b.String() != c.kept || b.Over() != c.over || told != c.over {
			t.Errorf("of %d bytes it keeps %q, over %t, told %t", len(c.text), b.String(), b.Over(), told)
		}
	}
	quiet := &Buffer{Most: 1}
	_, _ = quiet.Write([]byte("a"))
	_, _ = quiet.Write([]byte("b"))
	if quiet.String() != "a" || !quiet.Over() {
		t.Errorf("it keeps %q, over %t", quiet.String(), quiet.Over())
	}
}
