package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Formats of the log.
const (
	logText = "text"
	logJSON = "json"
)

// newLogHandler is one of a format that setUpLog has checked.
func newLogHandler(format string, w io.Writer, level slog.Level) slog.Handler {
	if format == logJSON {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: asText})
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
}

// asText has JSON say what text says: a duration with its unit, and an address or a reason in one word.
func asText(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Any().(type) {
	case error: // the handler has its words
	case time.Time: // and its format
	case time.Duration:
		return slog.String(a.Key, value.String())
	case fmt.Stringer:
		return slog.String(a.Key, value.String())
	}
	return a
}
