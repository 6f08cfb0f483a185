package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/doctor"
)

const statusHelp = `Say how the network is: that all is well, or what is not, and what to do about it.

It asks the API server, which asks weft observe: a kubeconfig is all that it needs, and the right to list networkstatuses
of observe.weft.net. An administrator gives it, by a ClusterRoleBinding to the ClusterRole ` + api.NetworkStatusRole + `.

A finding has a severity ("failed", "warning", or "unknown" of what could not be read), the object, what is wrong with it
and the remedy. Below the findings there is what they were made of; -o wide has it for each node, address pool, egress
address and Service. Of a reason that many objects have, the first five are listed.

It does not look for Services without endpoints, nor for policies and peers that select no pod, as these may be intended.
"weft trace" and "weft policy explain" tell of them.

The JSON is what the API server answers, a NetworkStatusList. It may be five seconds old.`

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say how the network is, and what to do about what is wrong",
		Long:    statusHelp,
		Example: "  weft status\n  weft status -o wide --context production\n  weft status --watch",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "all is well"},
		exitCode{doctor.ExitWarning, "nothing has failed; there are warnings, or something could not be read"},
		exitCode{doctor.ExitFailed, "something has failed"},
		exitCode{doctor.ExitNotAsked, "there is no answer; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("output", "o", "text", "form of the answer: text, wide, json or yaml")
	f.BoolP("watch", "w", false, "ask again and again, until interrupted")
	f.Duration("interval", 5*time.Second, "how long to wait between two questions, with --watch; 1s at least")
	return answering(cmd, doctor.ExitNotAsked, cobra.NoArgs, func(ctx context.Context, s *settings, _ []string) error {
		watch, interval, timeout := s.boolean("watch"), s.interval(), s.duration("timeout")
		write := statusForms.chosen(s)
		config, _, err := contextConfig(s)
		if err != nil {
			return err
		}
		out := newScreen(cmd.OutOrStdout())
		if !watch {
			return tellStatus(ctx, config, out, write)
		}
		return watchStatus(cmd.Context(), interval, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			out.clear()
			return tellStatus(ctx, config, out, write)
		}, cmd.ErrOrStderr())
	})
}

// statusForms write an answer.
var statusForms = answerForms(writeStatus)

// tellStatus asks once. The error has the exit code of what was answered.
func tellStatus(ctx context.Context, config *rest.Config, out screen, write form[*api.NetworkStatus]) error {
	text, status, err := askStatus(ctx, config)
	if err == nil {
		err = write(out, text, status)
	}
	if err != nil {
		return err
	}
	switch status.Result {
	case api.OK:
		return nil
	case api.Failed:
		return &exitError{code: doctor.ExitFailed}
	}
	return &exitError{code: doctor.ExitWarning}
}

func askStatus(ctx context.Context, config *rest.Config) (text []byte, status *api.NetworkStatus, err error) {
	return askOne[api.NetworkStatus](ctx, config, question{resource: api.NetworkStatusResource,
		role: api.NetworkStatusRole})
}

// watchStatus tells again and again until ctx is done, and ends as the last answer did. Without an answer it goes on:
// the API server may come back.
func watchStatus(ctx context.Context, interval time.Duration, tell func(context.Context) error, errs io.Writer) error {
	var last error
	for {
		err := tell(ctx)
		if ctx.Err() != nil { // the question was broken off
			return last
		}
		last = err
		var answered *exitError
		if err != nil && !errors.As(err, &answered) {
			fmt.Fprintln(errs, "weft:", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(interval):
		}
	}
}

// screen is where an answer is written.
type screen struct {
	io.Writer
	terminal, colour bool
}

// newScreen uses colours on a terminal, unless NO_COLOR (https://no-color.org) has a value. The console of Windows
// would have to be told to take them.
func newScreen(w io.Writer) screen {
	file, ok := w.(*os.File)
	s := screen{Writer: w, terminal: ok && term.IsTerminal(int(file.Fd())) && runtime.GOOS != "windows"}
	s.colour = s.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// clear makes room for the next answer.
func (s screen) clear() {
	if s.terminal {
		fmt.Fprint(s, "\x1b[H\x1b[2J")
	}
}
