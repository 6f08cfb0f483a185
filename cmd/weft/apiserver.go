package main

import (
	"log/slog"
	"os"
)

// variable is one of the environment that is no key.
type variable struct{ name, value, usage string }

// signsOfLife say how soon client-go leaves a connection to an API server whose host is lost: it asks
// for a sign of life after so much silence, and waits so long for it. By itself it would leave after 45 s,
// for which time nothing new would have a network.
var signsOfLife = []variable{
	{"HTTP2_READ_IDLE_TIMEOUT_SECONDS", "3",
		"seconds of silence after which a program that runs until it is stopped asks the API server for a sign of life"},
	{"HTTP2_PING_TIMEOUT_SECONDS", "3",
		"seconds after which such a program leaves an API server that gives no sign of life"},
}

// askAPIServers for signs of life, as often as the environment says or else as we do. client-go reads that
// whenever it makes a client, from the environment alone.
func askAPIServers() {
	for _, v := range signsOfLife {
		if os.Getenv(v.name) != "" {
			continue
		}
		if err := os.Setenv(v.name, v.value); err != nil {
			slog.Warn("set how soon a silent API server is left", "variable", v.name, "error", err)
		}
	}
}
