package reference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sourceOf is the source of a program of one file.
func sourceOf(t *testing.T, code string) *Source {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "node"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "node", "code.go"), []byte("package node\n"+code), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSource(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMetricsAreRead: what the reader understands, and that it is an error where it does not.
func TestMetricsAreRead(t *testing.T) {
	for _, c := range []struct{ name, code, metric, help, labels, wrong string }{
		{name: "a gauge", code: `var m = prometheus.NewGauge(prometheus.GaugeOpts{Name: "a", Help: "B."})`, metric: "a",
			help: "B."},
		{name: "sums and constants", code: `const one = "a"
			var m = prometheus.NewCounterVec(prometheus.CounterOpts{Name: one + "_b", Help: "C" + "."}, []string{"d", one})`,
			metric: "a_b", help: "C.", labels: "`d`, `a`"},
		{name: "a description", code: `var d = prometheus.NewDesc("a", "B.", []string{"c"}, nil)`, metric: "a", help: "B.",
			labels: "`c`"},
		{name: "a name that is made at run time", code: `func f(name string) any {
			return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "B."}) }`, wrong: "constant texts"},
		{name: "no help", code: `var m = prometheus.NewGauge(prometheus.GaugeOpts{Name: "a"})`, wrong: "needs a name and a help"},
		{name: "options from elsewhere", code: `var m = prometheus.NewGauge(options)`, wrong: "literal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := metrics(sourceOf(t, `import "github.com/prometheus/client_golang/prometheus"`+"\n"+c.code))
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("%v, %v; want an error with %q", found, err, c.wrong)
				}
				return
			}
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if m := found[0]; m.name != c.metric || m.help != c.help || labelsOf(m.labels) != c.labels {
				t.Errorf("%+v", m)
			}
		})
	}
}

// TestEventsNeedReasons: a reason says all, and no Event is written without one.
func TestEventsNeedReasons(t *testing.T) {
	const good = `var lost = &reasons.Event{Name: "Lost", On: "Pod", Meaning: "It is lost.", Remedy: "Delete it."}
		func f(r recorder) { r.Event(nil, "Warning", lost.Name, "text") }`
	for _, c := range []struct{ name, code, wrong string }{
		{"all is well", good, ""},
		{"no meaning", `var lost = &reasons.Event{Name: "Lost", On: "Pod"}`, "needs the field Meaning"},
		{"a meaning that is made at run time", `var lost = &reasons.Event{Name: "Lost", On: "Pod", Meaning: words()}`,
			"constant texts"},
		{"a mere text", good + `
		func g(r recorder) { r.Eventf(nil, "Warning", "Found", "text") }`, "the reason of an Event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			page, err := Events(sourceOf(t, `import "github.com/weftnet/weft/models/reasons"`+"\n"+c.code))
			switch {
			case c.wrong == "" && err == nil:
				want := "| `Lost` | Pod | `weft node` | It is lost. | Delete it. |"
				if !strings.Contains(page.text.String(), want) {
					t.Errorf("no %q in %s", want, page.text.String())
				}
			case c.wrong == "" || err == nil || !strings.Contains(err.Error(), c.wrong):
				t.Errorf("%v; want an error with %q", err, c.wrong)
			}
		})
	}
}

// TestNamesAreDescribed by the comments of their constants.
func TestNamesAreDescribed(t *testing.T) {
	for _, c := range []struct{ name, code, wrong string }{
		{"described", "// Key is the annotation of a Pod: its key.\nconst Key = \"weft.net/key\"", ""},
		{"not described", "// Key is one.\nconst Key = \"weft.net/key\"", "describes no weft.net/key"},
		{"no constant", "var m = map[string]string{\"weft.net/key\": \"\"}", "weft.net/key is no constant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := names(sourceOf(t, c.code))
			switch {
			case c.wrong == "" && err == nil:
				n := found[0]
				if n.text != "weft.net/key" || n.kind != "annotation" || n.of != "Pod" || n.meaning != "its key." {
					t.Errorf("%+v", n)
				}
			case c.wrong == "" || err == nil || !strings.Contains(err.Error(), c.wrong):
				t.Errorf("%v; want an error with %q", err, c.wrong)
			}
		})
	}
}

// TestValuesAreDescribed by the comments of their type's fields, and of those in them.
func TestValuesAreDescribed(t *testing.T) {
	const key = "// Key is the annotation of a Pod: its key ([Value]).\nconst Key = \"weft.net/key\"\n"
	for _, c := range []struct{ name, code, want, wrong string }{
		{"all kinds", `type Value struct {
				// Ports are the pod's ports.
				Ports Ports ` + "`json:\"ports\"`" + `
				// Inner is there if the pod has more.
				Inner *Inner ` + "`json:\"inner,omitempty\"`" + `
			}
			type Ports []Port
			type Port struct{ number int }
			func (p Port) MarshalText() ([]byte, error) { return nil, nil }
			type Inner struct {
				// Since is the time.
				Since time.Time ` + "`json:\"since\"`" + `
				// Until is the end.
				Until time.Time ` + "`json:\"until,omitzero\"`" + `
			}`, "| `ports`\\* | list of string | The pod's ports. |\n| `inner` | object | There if the pod has more. |\n" +
			"| `inner.since`\\* | time | The time. |\n| `inner.until` | time | The end. |\n", ""},
		{"no comment", "type Value struct {\n\tA int `json:\"a\"`\n}", "", "needs a line, a comment"},
		{"another comment", "type Value struct {\n\t// A tells.\n\tA int `json:\"a\"`\n}", "", `does not begin like "A is …"`},
		{"no type", "", "", "Value is no struct"},
	} {
		t.Run(c.name, func(t *testing.T) {
			page, err := Names(sourceOf(t, key+c.code))
			switch {
			case c.wrong == "" && err == nil:
				if !strings.Contains(page.text.String(), c.want) {
					t.Errorf("the page has no\n%s\n%s", c.want, page.text.String())
				}
			case c.wrong == "" || err == nil || !strings.Contains(err.Error(), c.wrong):
				t.Errorf("%v; want an error with %q", err, c.wrong)
			}
		})
	}
}

// TestFilesNeedModes: a file says all, and none is written with another mode.
func TestFilesNeedModes(t *testing.T) {
	const good = `var one = &hostfile.File{Path: "{data-dir}/one", Mode: 0o600, Content: "It.", Loss: "Nothing."}
		func f() { os.WriteFile(one.In(""), nil, one.Mode) }`
	for _, c := range []struct{ name, code, wrong string }{
		{"all is well", good, ""},
		{"no mode", `var one = &hostfile.File{Path: "{data-dir}/one", Content: "It.", Loss: "Nothing."}`, "the field Mode"},
		{"a mode of its own", good + `
			func g() { os.WriteFile("two", nil, 0o644) }`, "the mode of a file"},
		{"a file of the kernel's", good + `
			func g() { os.WriteFile("/proc/self/oom_score_adj", nil, 0) }`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Files(sourceOf(t, `import "github.com/weftnet/weft/models/hostfile"`+"\n"+c.code))
			if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("%v; want an error with %q", err, c.wrong)
			}
		})
	}
}
