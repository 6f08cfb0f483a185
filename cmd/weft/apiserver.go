package main

import (
	"log/slog"
	"os"
)

// signsOfLife say how soon client-go leaves a connection to an API server whose host is lost: it asks
// for a sign of life after so much silence, and waits so long for it. By itself it would leave after 45 s,
// for which time nothing new would have a network.
var signsOfLife = map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "3", "HTTP2_PING_TIMEOUT_SECONDS": "3"}

// askAPIServers for signs of life, as often as the environment says or else as we do. client-go reads that
// whenever it makes a client, from the environment alone.
func askAPIServers() {
	for name, seconds := range signsOfLife {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, seconds); err != nil {
			slog.Warn("set how soon a silent API server is left", "variable", name, "error", err)
		}
	}
}
