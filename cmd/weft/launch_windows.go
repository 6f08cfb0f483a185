package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"

	"github.com/weftnet/weft/node"
)

// serviceName is the service's, and its source's in the event log.
const serviceName = "weft-node"

// launch runs a daemon: under the service control manager where the flag service says so, else until
// Ctrl-C. The flag decides since Windows' own answer is a guess from the parent process.
func launch(cmd *cobra.Command, run func(context.Context) error) error {
	asService := cmd.Flags().Lookup("service")
	if asService == nil || asService.Value.String() != "true" {
		return run(cmd.Context())
	}
	s := &service{run: run, context: cmd.Context()}
	err := svc.Run(serviceName, s)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return fmt.Errorf("only the service control manager can run a service: leave --service out, or use `weft " +
			"service start`")
	}
	if err != nil {
		return fmt.Errorf("run as a service: %w", err)
	}
	return s.failure
}

// service is the daemon as the service control manager sees it.
type service struct {
	run     func(context.Context) error
	context context.Context
	failure error
}

// failed is the exit code of the service when the daemon has ended with an error: the recovery actions
// are for that, too.
const failed = 1

// stopProgress is how often the manager is told that a stop goes on: within the time that it was given as a hint.
const stopProgress = 10 * time.Second

// Execute runs the daemon until the manager asks it to stop, or it ends by itself.
func (s *service) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (specific bool,
	code uint32) {
	status <- svc.Status{State: svc.StartPending}
	ctx, cancel := context.WithCancel(s.context)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- running
	var stopping <-chan time.Time
	for {
		select {
		case err := <-ended:
			switch {
			case err == nil:
				return false, 0
			case ctx.Err() != nil: // a code would have Windows start again what it was told to stop
				slog.Info("the agent was stopped at work that it does again at its next start", "error", err)
				return false, 0
			}
			s.failure = err
			slog.Error("the agent has ended", "error", err)
			reportFailure(err)
			return true, failed
		case <-stopping:
			running.CheckPoint++
			status <- running
		case request := <-requests:
			switch request.Cmd {
			case svc.Interrogate:
				status <- running
			case svc.Stop, svc.Shutdown:
				running = svc.Status{State: svc.StopPending, WaitHint: 20_000, CheckPoint: running.CheckPoint}
				status <- running
				cancel()
				stopping = time.Tick(stopProgress)
			}
		}
	}
}

// logHandler writes to the console. A service has none: it writes to a file, and to the event log what
// somebody must see.
func logHandler(s *settings, format string, level slog.Level) (slog.Handler, error) {
	if !s.viper.IsSet("service") { // a command that is no daemon of a node
		return newLogHandler(format, os.Stderr, level), nil
	}
	asService, path := s.boolean("service"), s.text("log-file")
	if path == "" && asService {
		path = logHostFile.In(s.text("state-dir"))
		if err := node.SecureFolder(s.text("state-dir")); err != nil {
			return nil, fmt.Errorf("state-dir: %w", err)
		}
	}
	if err := s.err(); err != nil {
		return nil, err
	}
	var handlers []slog.Handler
	if !asService {
		handlers = append(handlers, newLogHandler(format, os.Stderr, level))
	}
	if path != "" {
		file, err := openLogFile(path)
		if err != nil {
			return nil, fmt.Errorf("log-file: %w", err)
		}
		handlers = append(handlers, newLogHandler(format, file, level))
	}
	if asService {
		if events, err := newEventHandler(); err == nil { // `weft service install` makes the source
			handlers = append(handlers, events)
		}
	}
	return slog.NewMultiHandler(handlers...), nil
}
