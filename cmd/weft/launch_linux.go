package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// launch runs a daemon; systemd, or a person, ends it by a signal.
func launch(cmd *cobra.Command, run func(context.Context) error) error { return run(cmd.Context()) }

func logHandler(_ *settings, format string, level slog.Level) (slog.Handler, error) {
	return newLogHandler(format, os.Stderr, level), nil
}
