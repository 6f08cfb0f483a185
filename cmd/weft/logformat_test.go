package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/telemetry"
)

// TestLogsHaveFormats: the same line as text and as JSON.
func TestLogsHaveFormats(t *testing.T) {
	line := func(format string) string {
		var log bytes.Buffer
		slog.New(newLogHandler(format, &log, slog.LevelWarn)).Warn("it is full", telemetry.Object("Pod", "shop", "web"),
			"after", 1500*time.Millisecond, "peer", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80},
			"error", errors.New("no address"))
		return log.String()
	}
	if text := line(logText); !strings.Contains(text, `level=WARN msg="it is full" object=Pod/shop/web after=1.5s peer=192.0.2.1:80 error="no address"`) {
		t.Errorf("text: %s", text)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(line(logJSON)), &fields); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"level": "WARN", "msg": "it is full", "object": "Pod/shop/web",
		"after": "1.5s", "peer": "192.0.2.1:80", "error": "no address"} {
		if fields[key] != want {
			t.Errorf("JSON has %v under %s, want %s", fields[key], key, want)
		}
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
