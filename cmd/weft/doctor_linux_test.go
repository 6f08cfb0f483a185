package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/doctor"
)

// runDoctor gives the exit code, 0 without an error, and what was printed.
func runDoctor(t *testing.T, args ...string) (code int, printed string) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(append([]string{"doctor"}, args...))
	root.SetOut(&out)
	root.SetErr(&out)
	cmd, err := root.ExecuteContextC(t.Context())
	var exit *exitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v has no exit code", err)
	}
	if err != nil {
		code = exit.code
	}
	checkExit(t, cmd, code)
	return code, out.String()
}

func TestDoctorReadsTheAgentsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weft.yaml")
	keys := "node-name: l7\nencap-address: 192.0.2.11\nencap-type: vxlan\nkubeconfig: /nonexistent\novs-database: " +
		"unix:/nonexistent/db.sock\n"
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	code, printed := runDoctor(t, "--config", file, "--output", "json", "--metrics-address", "")
	if code != doctor.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	var report doctor.Report
	decoder := json.NewDecoder(strings.NewReader(printed))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatalf("%v in:\n%s", err, printed)
	}
	if report.Schema != "weft.net/doctor/v1" || report.Node != "l7" || report.OS != "linux" ||
		report.Result != doctor.Failed || report.Time.IsZero() {
		t.Errorf("%+v", report)
	}
	wanted := map[string]string{"configuration": "encap-type", "api-server": "/nonexistent", "encap-address": "192.0.2.11",
		"ovs-database": "/nonexistent/db.sock"}
	for _, f := range report.Findings {
		if word, known := wanted[f.Check]; known && strings.Contains(f.Detail, word) {
			delete(wanted, f.Check)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("no findings with %v in:\n%s", wanted, printed)
	}
	if code, text := runDoctor(t, "--config", file, "--metrics-address", ""); code != doctor.ExitFailed ||
		!strings.Contains(text, "FAILED       configuration") {
		t.Errorf("exit code %d and as text:\n%s", code, text)
	}
}

func TestDoctorThatIsCalledWrongly(t *testing.T) {
	unknownKey := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(unknownKey, []byte("encap-adress: 192.0.2.11\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"--nosuch", "argument", "--output=xml", "--config=/nonexistent",
		"--config=" + unknownKey, "--log-level=loud"} {
		if code, printed := runDoctor(t, args); code != doctor.ExitNotAsked || strings.Contains(printed, "cannot tell") {
			t.Errorf("%s: exit code %d:\n%s", args, code, printed)
		}
	}
}
