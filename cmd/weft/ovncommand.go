package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/doctor"
	"github.com/weftnet/weft/ovn/observe/command"
)

const ovnCommandHelp = `Run a command of %[1]s that only reads, by weft observe and its read-only socket.

It asks the API server, which asks weft observe: a kubeconfig is all that it needs, and the right to get ovncommands of
observe.weft.net. An administrator gives it, by a ClusterRoleBinding to the ClusterRole ` + api.OVNCommandRole + `.

Flags of weft come first, then two hyphens, if %[1]s has options, then these, each with its value after an equals
sign, and then the command and its arguments. Other commands and options than those that only read are refused.

A command has 15 seconds. Of its output 4 MiB are printed.`

// ovnCommand is `weft nbctl` or `weft sbctl`.
func ovnCommand(name, example string) *cobra.Command {
	tool := command.Tools[name]
	cmd := &cobra.Command{
		Use:     name + " [flags] [--] [OPTION...] COMMAND [ARGUMENT...]",
		Short:   "Run a command of " + tool.Program + " that only reads, in the cluster",
		Long:    fmt.Sprintf(ovnCommandHelp, tool.Program),
		Example: example,
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "the command, which only reads, has answered"},
		exitCode{doctor.ExitWarning, "it ran and failed, for example since there is no such table; or it was ended after " +
			"15 seconds, or printed more than 4 MiB; the error says why"},
		exitCode{doctor.ExitNotAsked, "it was refused, or there is no answer; the error says why"})
	f := cmd.Flags()
	f.SetInterspersed(false)
	contextFlags(f)
	return answering(cmd, doctor.ExitNotAsked, cobra.ArbitraryArgs, func(ctx context.Context, s *settings,
		arguments []string) error {
		config, _, err := contextConfig(s)
		if err != nil {
			return err
		}
		if err := tool.Check(arguments); err != nil {
			return err
		}
		text, err := question{resource: api.OVNCommandResource, name: name, role: api.OVNCommandRole,
			query: url.Values{api.OVNCommandArgument: arguments}}.ask(ctx, config)
		if err != nil {
			return err
		}
		answer := &api.OVNCommand{}
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("read what the API server answers: %w", err)
		}
		return tellOVNCommand(newScreen(cmd.OutOrStdout()), cmd.ErrOrStderr(), answer)
	})
}

// tellOVNCommand prints what a program has printed. A terminal gets no control characters.
func tellOVNCommand(out screen, errs io.Writer, answer *api.OVNCommand) error {
	text := answer.Output
	if out.terminal {
		text = shownLines(text)
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	fmt.Fprint(errs, shownLines(answer.Errors))
	if answer.Truncated {
		return &exitError{doctor.ExitWarning,
			fmt.Errorf("the output ends here, after %d bytes: ask for less", len(answer.Output))}
	}
	if answer.ExitCode != 0 {
		return &exitError{code: doctor.ExitWarning}
	}
	return nil
}
