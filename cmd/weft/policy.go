package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovsdb"
)

// Exit codes of `weft policy`.
const (
	exitRefused = 1 // a connection is refused, or is not what was expected
	exitUnasked = 2 // there is no answer: the command, what it reads, or the cluster is wrong
)

func policyCommand() *cobra.Command {
	return group("policy", "Ask what network policies let pass", exitUnasked, explainCommand(), checkCommand(),
		hitsCommand())
}

// group is a command of verbs. A word that is none of them ends it with unasked.
func group(use, short string, unasked int, verbs ...*cobra.Command) *cobra.Command {
	noVerb := func(cmd *cobra.Command, words []string) error {
		if len(words) == 0 {
			return nil
		}
		var names []string
		for _, verb := range cmd.Commands() {
			names = append(names, verb.Name())
		}
		return &exitError{unasked, fmt.Errorf("%q is no command of %q, which has %s", words[0], cmd.CommandPath(),
			strings.Join(names, ", "))}
	}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  noVerb,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cmp.Or(noVerb(cmd, cmd.Flags().Args()), error(&exitError{unasked, err}))
	})
	cmd.AddCommand(verbs...)
	return cmd
}

// explainRole is the ClusterRole by which users may read what decides on a connection. An administrator makes it.
const explainRole = "weft-policy-explain"

const explainHelp = `Say which rule of which policy lets a connection pass or drops it.

The connection is from a pod, as [NAMESPACE/]NAME, or an address, to the same or a Service, as
svc/[NAMESPACE/]NAME, with a port: "prod/db:5432", "prod/dns:53/udp", "[2001:db8::1]:443", "svc/prod/web:80".
The port of a Service may be its name, and may be left out if the Service has only one. "prod/db:icmp" asks for
pings. A Service is judged at each of its ready endpoints, as policies see it, also where its address is given, or a
node's with its NodePort.

Policies, pods, namespaces and nodes are read off the API server, and judged as the controller would translate them.
That needs the right to list these in the whole cluster (ClusterRole ` + explainRole + `). With --ovn-northbound the
rows decide that are in force, and you are told where they differ.

A warning tells of each selector that selects no pod, in policies that are about one of the ends, or may be meant for
one.`

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain POD|ADDRESS POD|ADDRESS|SERVICE:PORT[/PROTOCOL]",
		Short: "Say which rule of which policy lets a connection pass or drops it",
		Long:  explainHelp,
		Example: "  weft policy explain prod/web prod/db:5432\n" +
			"  weft policy explain prod/web svc/kube-system/kube-dns:53/udp",
	}
	endsWith(cmd, exitCode{0, "the connection is allowed: over each address family, and at each endpoint"},
		exitCode{exitRefused, "it is refused over an address family, or at an endpoint"},
		exitCode{exitUnasked, "there is no answer; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("namespace", "n", "", "namespace of pods and Services named without one; empty: that of the context")
	f.String("family", "", "address family of the connection: ipv4 or ipv6; empty: each that both ends have")
	f.StringSlice("ovn-northbound", nil, "endpoints of the OVN Northbound, each unix:PATH, tcp:HOST:PORT or "+
		"ssl:HOST:PORT; its rows decide. Empty: the policies decide, as the controller would translate them")
	databaseFlags(f)
	completeArguments(cmd, 2, podOrService)
	return asking(cmd, cobra.ExactArgs(2), func(ctx context.Context, s *settings, args []string) error {
		family, err := familyOf(s)
		if err != nil {
			return err
		}
		config, namespace, err := contextConfig(s)
		if err != nil {
			return err
		}
		question, err := explain.ParseQuestion(args[0], args[1], namespace)
		if err != nil {
			return err
		}
		cluster, err := liveCluster(ctx, cmd, s, config, question)
		if err != nil {
			return err
		}
		answer, err := cluster.Ask(question, family)
		if err != nil {
			return err
		}
		fmt.Fprint(cmd.OutOrStdout(), answer)
		for _, p := range answer.Problems {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", p)
		}
		for _, text := range answer.Nobody {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", text)
		}
		if !answer.Allowed() {
			return &exitError{code: exitRefused}
		}
		return nil
	})
}

// liveCluster reads what a question is about.
func liveCluster(ctx context.Context, cmd *cobra.Command, s *settings, config *rest.Config,
	question explain.Question) (*explain.Cluster, error) {
	config.QPS = -1
	cluster, err := explain.Read(ctx, config, question)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%w\nThe policies of the whole cluster are judged, so you need the right to list these in "+
			"the whole cluster. An administrator applies the ClusterRole %[2]s of docs/policies.md, and gives it: kubectl "+
			"create clusterrolebinding NAME --clusterrole=%[2]s --user=USER\nWithout it, `weft trace` asks about one "+
			"connection, by rights in namespaces", err, explainRole)
	}
	if err != nil {
		return nil, err
	}
	if len(s.list("ovn-northbound")) == 0 {
		return cluster, nil
	}
	unread, err := cluster.Northbound(ctx, databaseConfig(s, "ovn-northbound"))
	if unread != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: rows of the Northbound that are left out:", unread)
	}
	return cluster, err
}

// asking is a command that asks databases or the API server, answers and ends. Without an answer it ends with
// exitUnasked.
func asking(cmd *cobra.Command, args cobra.PositionalArgs, ask func(ctx context.Context, s *settings,
	args []string) error) *cobra.Command {
	return answering(cmd, exitUnasked, args, ask)
}

// answering is asking with an exit code of its own for no answer.
func answering(cmd *cobra.Command, unasked int, args cobra.PositionalArgs, ask func(ctx context.Context, s *settings,
	args []string) error) *cobra.Command {
	cmd.Flags().Duration("timeout", 30*time.Second, "how long databases and the API server may take to answer")
	return offline(cmd, unasked, args, func(ctx context.Context, s *settings, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, s.duration("timeout"))
		defer cancel()
		if err := s.err(); err != nil {
			return err
		}
		return ask(ctx, s, args)
	})
}

// offline is answering by a command that asks nobody, and so needs no limit of time.
func offline(cmd *cobra.Command, unasked int, args cobra.PositionalArgs, answer func(ctx context.Context, s *settings,
	args []string) error) *cobra.Command {
	cmd.Flags().String("config", "", configUsage)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{unasked, err} })
	completeFlags(cmd)
	cmd.Args = func(cmd *cobra.Command, list []string) error {
		if err := args(cmd, list); err != nil {
			return &exitError{unasked, err}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage = true
		s, err := loadSettings(cmd)
		if err == nil {
			slog.SetDefault(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})))
			klog.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
			err = answer(cmd.Context(), s, args)
		}
		var exit *exitError
		if err != nil && !errors.As(err, &exit) {
			return &exitError{unasked, err}
		}
		return err
	}
	return cmd
}

func familyOf(s *settings) (string, error) {
	family := s.text("family")
	if !slices.Contains([]string{"", "ipv4", "ipv6"}, family) {
		return "", fmt.Errorf("family: %q is neither \"ipv4\" nor \"ipv6\"; leave it empty for both", family)
	}
	return family, nil
}

func databaseFlags(f *pflag.FlagSet) {
	f.String("ovn-ca", "", "PEM file of the CA that signed the database's certificate, for ssl endpoints")
	f.String("ovn-certificate", "", "PEM file of a certificate of your own, for ssl endpoints")
	f.String("ovn-private-key", "", "PEM file of the key of ovn-certificate, for ssl endpoints")
}

// databaseConfig is for the database whose endpoints a key has.
func databaseConfig(s *settings, key string) ovsdb.Config {
	config := ovsdb.Config{Endpoints: strings.Join(s.list(key), ",")}
	if ca := s.text("ovn-ca"); ca != "" {
		config.TLS = &ovsdb.TLS{CertFile: s.text("ovn-certificate"), KeyFile: s.text("ovn-private-key"), CAFile: ca}
	}
	return config
}

// readFile reads a file, or standard input where it is "-".
func readFile(cmd *cobra.Command, file string) (string, error) {
	if file != "-" {
		text, err := os.ReadFile(file)
		return string(text), err
	}
	text, err := io.ReadAll(cmd.InOrStdin())
	return string(text), err
}
