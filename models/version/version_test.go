package version

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestTextHasAllFields(t *testing.T) {
	var out strings.Builder
	info := Info{Version: "1.2.0", Commit: "c0ffee", Go: "go1.26.8", Platform: "linux/arm64", OVN: "25.03",
		OpenVSwitch: "3.5"}
	if err := info.Write(&out, "text"); err != nil {
		t.Fatal(err)
	}
	const want = `Weft                   1.2.0
commit                 c0ffee
Go                     go1.26.8
platform               linux/arm64
made for OVN           25.03
made for Open vSwitch  3.5
`
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", &out, want)
	}
}

func TestJSONHasAllFields(t *testing.T) {
	var out strings.Builder
	if err := Current().Write(&out, "json"); err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	if err := json.Unmarshal([]byte(out.String()), &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"schema": "weft.net/version/v1", "version": "unknown", "commit": "unknown",
		"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "ovn": OVN} {
		if fields[name] != want {
			t.Errorf("%s is %q, not %q", name, fields[name], want)
		}
	}
	if fields["openVSwitch"] == "" || len(fields) != 7 {
		t.Errorf("the fields are %v", fields)
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	var out strings.Builder
	if err := Current().Write(&out, "yaml"); err == nil || !strings.Contains(err.Error(), "yaml") || out.Len() > 0 {
		t.Errorf("error %v, and printed %q", err, &out)
	}
}

func TestWindowsHasTheVersionOfItsDriver(t *testing.T) {
	for system, want := range map[string]string{"linux": OpenVSwitch, "windows": OpenVSwitchOnWindows} {
		if got := infoFor(system, "amd64").OpenVSwitch; got != want {
			t.Errorf("on %s it is made for Open vSwitch %s, not %s", system, got, want)
		}
	}
}
