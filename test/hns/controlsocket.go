package hns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// The control socket: a connection is a verb, {"words":[...]}, and its answer, {"text":"","error":""}.

type controlRequest struct {
	Words []string `json:"words"`
}

type controlAnswer struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// Controlled is an emulator that does what words say and tells what came of it.
type Controlled interface {
	Control(words []string) (string, error)
}

// ServeControl answers [Tell] until ctx ends.
func ServeControl(ctx context.Context, l net.Listener, s Controlled) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		go func() {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			var request controlRequest
			if err := json.NewDecoder(conn).Decode(&request); err != nil {
				return // someone looked whether the socket is served
			}
			text, err := s.Control(request.Words)
			answer := controlAnswer{Text: text}
			if err != nil {
				answer.Error = err.Error()
			}
			_ = json.NewEncoder(conn).Encode(answer)
		}()
	}
}

// Tell has the emulator behind a control socket do what the words say and returns what it answers.
func Tell(ctx context.Context, socket string, words []string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", fmt.Errorf("reach the emulator: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(controlRequest{words}); err != nil {
		return "", fmt.Errorf("tell the emulator: %w", err)
	}
	var answer controlAnswer
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return "", fmt.Errorf("hear the emulator: %w", err)
	}
	if answer.Error != "" {
		return answer.Text, errors.New(answer.Error)
	}
	return answer.Text, nil
}
