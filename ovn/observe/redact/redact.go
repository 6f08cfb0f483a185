// Package redact leaves secrets out of what is given to others: of values that a name says are secret, and of texts
// that have the form of a secret.
//
// It is the last of several fences. What has secrets by its nature, such as Secrets and the environment of containers,
// must not be read in the first place.
package redact

import (
	"regexp"
	"slices"
	"strings"
)

// LeftOut stands where a secret was.
const LeftOut = "[left out]"

// secretName is a name whose value is a secret. Names such as requested-tnl-key and weft.net/key are none.
var secretName = regexp.MustCompile(`(?i)psk|pre-?shared|passw(or)?d|passphrase|secret|token|credential|authorization|` +
	`(private|ipsec|api|shared|encryption)[-_.]?key`)

// Names is whether a name says that its value is a secret.
func Names(name string) bool { return secretName.MatchString(name) }

// form is one that secrets have in a text.
type form struct {
	// hints are words in small letters, of which each text with such a secret has one: to look for them is cheaper.
	hints  []string
	secret *regexp.Regexp
	with   string
}

// forms are what secrets look like. The first has the rest of a text whose end is missing, and the second what comes
// before an end whose beginning is missing, as in the tail of a log.
var forms = []form{
	{[]string{"private key"},
		regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`), LeftOut},
	{[]string{"private key"},
		regexp.MustCompile(`([A-Za-z0-9+/=]{8,}(\s|\\n)+)*-----END [A-Z0-9 ]*PRIVATE KEY-----`), LeftOut},
	{[]string{"eyj"}, // JSON web tokens
		regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`), LeftOut},
	{[]string{"."}, // kubeadm's tokens
		regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), LeftOut},
	{[]string{"bearer", "basic"},
		regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/-]{8,}=*`), "$1 " + LeftOut},
	{[]string{"://"}, // passwords in URLs
		regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]+@`), "$1:" + LeftOut + "@"},
	{[]string{"psk", "passw", "passphrase", "secret", "token", "private"},
		regexp.MustCompile(`(?i)((?:psk|passw(?:or)?d|passphrase|secret|token|private[-_.]?key)(?:\\?["'])?\s*[=:]\s*)` +
			`(?:\[left out\]|\\?"[^"]*"|'[^']*'|[^\s"',;}]+)`), "${1}" + LeftOut},
}

// Text is a text without secrets.
func Text(text string) string {
	small := strings.ToLower(text)
	for _, f := range forms {
		if slices.ContainsFunc(f.hints, func(hint string) bool { return strings.Contains(small, hint) }) {
			text = f.secret.ReplaceAllString(text, f.with)
		}
	}
	return text
}

// Value is a value of JSON, as encoding/json decodes it, without secrets. The value that is given may be changed.
func Value(value any) any {
	switch v := value.(type) {
	case string:
		return Text(v)
	case []any:
		for i := range v {
			v[i] = Value(v[i])
		}
	case map[string]any:
		for name, inner := range v {
			v[name] = named(name, inner)
		}
	}
	return value
}

// named is the value of a name. Of a secret's name all texts are left out, and what else is under it.
func named(name string, value any) any {
	if !Names(name) {
		return Value(value)
	}
	switch value.(type) {
	case nil, bool:
		return value
	}
	return LeftOut
}
