package main

import (
	"bytes"
	"context"
	"log/slog"
	"sync"

	"golang.org/x/sys/windows/svc/eventlog"
)

// eventID of all entries: the source's message file, EventCreate.exe, has texts for 1 to 1000.
const eventID = 1

// eventHandler writes warnings and errors to the event log, each as one line of text.
type eventHandler struct {
	slog.Handler
	out *eventWriter
}

type eventWriter struct {
	log  *eventlog.Log
	mu   sync.Mutex // held from an entry's formatting to its report
	line bytes.Buffer
}

func (w *eventWriter) Write(text []byte) (int, error) { return w.line.Write(text) }

func newEventHandler() (*eventHandler, error) {
	log, err := eventlog.Open(serviceName)
	if err != nil {
		return nil, err
	}
	out := &eventWriter{log: log}
	return &eventHandler{slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}), out}, nil
}

func (h *eventHandler) Handle(ctx context.Context, record slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.line.Reset()
	if err := h.Handler.Handle(ctx, record); err != nil {
		return err
	}
	text := string(bytes.TrimSpace(h.out.line.Bytes()))
	if record.Level >= slog.LevelError {
		return h.out.log.Error(eventID, text)
	}
	return h.out.log.Warning(eventID, text)
}

func (h *eventHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &eventHandler{h.Handler.WithAttrs(attrs), h.out}
}

func (h *eventHandler) WithGroup(name string) slog.Handler {
	return &eventHandler{h.Handler.WithGroup(name), h.out}
}

// reportFailure is for an agent that has ended before it had a log: its configuration may be at fault.
func reportFailure(failure error) {
	log, err := eventlog.Open(serviceName)
	if err != nil {
		return // there is nowhere left to say it
	}
	defer log.Close()
	_ = log.Error(eventID, "weft node has ended: "+failure.Error())
}
