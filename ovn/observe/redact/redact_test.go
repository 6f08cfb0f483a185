package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

const key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBhunter2AAAAAAAAAA\nAwEHoUQDQgAEhunter2AAAAA==\n" +
	"-----END EC PRIVATE KEY-----"

// TestSecretsInTexts: what stands around a secret stays.
func TestSecretsInTexts(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a private key", "before " + key + " after", "before [left out] after"},
		{"a private key in JSON", `{"k":"` + strings.ReplaceAll(key, "\n", `\n`) + `"}`, `{"k":"[left out]"}`},
		{"a private key without its end", "x " + key[:60], "x [left out]"},
		{"the tail of a private key", key[40:] + "\nnext", "[left out]\nnext"},
		{"a certificate", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
			"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"},
		{"a web token", "token=eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2ln", "token=[left out]"},
		{"a web token alone", "got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2ln of a user", "got [left out] of a user"},
		{"a token of kubeadm", "join abcdef.0123456789abcdef now", "join [left out] now"},
		{"a header", "Authorization: Bearer hunter2hunter2", "Authorization: Bearer [left out]"},
		{"a URL", "dial https://admin:hunter2@192.0.2.1:6443/x", "dial https://admin:[left out]@192.0.2.1:6443/x"},
		{"a setting", "psk=hunter2, mtu=1400", "psk=[left out], mtu=1400"},
		{"a setting in quotes", `level=info password="hunter2 and more" node=l1`, `level=info password=[left out] node=l1`},
		{"a setting in JSON", `{"password": "hunter2", "node": "l1"}`, `{"password": [left out], "node": "l1"}`},
		{"nothing", "node l1: 10.244.0.3/24 0a:58:0a:f4:00:03 unix:/x", "node l1: 10.244.0.3/24 0a:58:0a:f4:00:03 unix:/x"},
	} {
		if got := Text(c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSecretsInValues: names say what is secret, and what is none stays.
func TestSecretsInValues(t *testing.T) {
	const given = `{"options": {"ipsec_psk": "hunter2", "requested-tnl-key": "7", "mtu": "1400", "ipsec-key": ["hunter2"]},
		"external_ids": {"weft.net/key": "switch", "note": "psk: hunter2"}, "automountServiceAccountToken": true,
		"list": [{"clientSecret": {"a": "hunter2"}}, 4]}`
	const want = `{"automountServiceAccountToken":true,"external_ids":{"note":"psk: [left out]","weft.net/key":"switch"},` +
		`"list":[{"clientSecret":"[left out]"},4],"options":{"ipsec-key":"[left out]","ipsec_psk":"[left out]","mtu":"1400",` +
		`"requested-tnl-key":"7"}}`
	var value any
	if err := json.Unmarshal([]byte(given), &value); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(Value(value))
	if err != nil || string(got) != want {
		t.Errorf("%v: got\n%s, want\n%s", err, got, want)
	}
}

// FuzzText: what is left out once stays out, whatever stands around it.
func FuzzText(f *testing.F) {
	f.Add("before ", " after")
	f.Fuzz(func(t *testing.T, before, after string) {
		if got := Text(before + "\n" + key + "\n" + after); strings.Contains(got, "hunter2AAAA") &&
			!strings.Contains(before+after, "hunter2AAAA") {
			t.Errorf("%q", got)
		}
	})
}
