package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/telemetry"
)

// TestLogsHaveFormats: the same line as text and as JSON.
func TestLogsHaveFormats(t *testing.T) {
	line := func(format string) string {
		var log bytes.Buffer
		slog.New(newLogHandler(format, &log, nil)).Warn("it is full", telemetry.Object("Pod", "shop", "web"))
		return log.String()
	}
	if text := line(logText); !strings.Contains(text, `level=WARN msg="it is full" object=Pod/shop/web`) {
		t.Errorf("text: %s", text)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(line(logJSON)), &fields); err != nil || fields["object"] != "Pod/shop/web" ||
		fields["level"] != "WARN" || fields["msg"] != "it is full" {
		t.Errorf("JSON: %v %v", fields, err)
	}
}

// TestKeysOfTelemetryAreChecked, of a program that all systems have.
func TestKeysOfTelemetryAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"a format that there is not": {[]string{"--log-format=xml"}, `log-format: "xml" is neither "text" nor "json"`},
		"profiles nowhere":           {[]string{"--profiling", "--metrics-address="}, "profiling: profiles are served at"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := nodeCommand()
			cmd.SetArgs(c.arguments)
			cmd.SilenceErrors = true
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
