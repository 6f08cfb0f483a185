package hostnet

import "testing"

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"vEthernet (Ethernet)": "'vEthernet (Ethernet)'",
		"Bob's":                "'Bob''s'",
		"Bob’s; rm":            "'Bob’’s; rm'",
		"‘‚‛":                  "'‘‘‚‚‛‛'",
	} {
		if got := quote(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}
