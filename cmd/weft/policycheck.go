package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovn/manifest"
)

const checkHelp = `Check policies before they are applied, without any cluster.

It reads YAML and JSON files, and directories with all that they have: policies, namespaces, nodes, pods, and
Deployments, StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs and CronJobs, each of which stands
for one pod of its name. A field that a kind does not have is an error. An object of a later -f takes the place of
that of an earlier one, so that a change can be checked beside what runs:

  kubectl get ns,nodes,pods,netpol,clusternetworkpolicies -A -o yaml | weft policy check -f - -f change.yaml

Without a question it tells whom each policy selects, and its rules. With --from and --to it explains one
connection, as "weft policy explain" does. With --expect it checks each line of a file:

  allow prod/web -> prod/db:5432       # comments are welcome
  deny  prod/web -> 192.0.2.1:53/udp`

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check -f FILE|DIRECTORY|- …",
		Short: "Check policies in files, and what they let pass, without any cluster",
		Long:  checkHelp,
		Example: "  weft policy check -f manifests/ --expect reachability.txt\n  weft policy check -f manifests/ --from " +
			"prod/web --to prod/db:5432",
	}
	endsWith(cmd, exitCode{0, "the policies are correct; with --from and --to: the connection is allowed; with " +
		"--expect: each expectation is met"},
		exitCode{exitRefused, "with --from and --to: the connection is refused; with --expect: an expectation is " +
			"not met"},
		exitCode{exitUnasked, "there is a mistake in a policy, in another input, or in the command"})
	f := cmd.Flags()
	f.StringSliceP("filename", "f", nil, "files and folders with manifests; - is standard input")
	f.String("namespace", "default", "namespace of objects and pods that name none")
	f.String("from", "", "pod or address that opens the connection")
	f.String("to", "", "pod or address, and port, to which the connection is opened")
	f.String("expect", "", "file with the connections that are expected to pass or to be refused; - is standard input")
	f.String("family", "", "address family of the connection: ipv4 or ipv6; empty: each that both ends have")
	f.StringSlice("pod-cidrs", nil, "ranges of pods' addresses; empty: those in the annotations of nodes that are read, "+
		"or "+strings.Join(explain.DefaultPodCIDRs, ","))
	return offline(cmd, exitUnasked, onlyFlags, func(_ context.Context, s *settings, _ []string) error {
		return check(cmd, s)
	})
}

// onlyFlags refuses what a shell makes of -f *.yaml.
func onlyFlags(_ *cobra.Command, words []string) error {
	if len(words) > 0 {
		return fmt.Errorf("%q belongs to no flag: give each file a -f of its own, as -f a.yaml -f b.yaml, or their directory",
			words[0])
	}
	return nil
}

func check(cmd *cobra.Command, s *settings) error {
	family, err := familyOf(s)
	if err != nil {
		return err
	}
	expectations, err := expected(cmd, s)
	if err != nil {
		return err
	}
	if len(s.list("filename")) == 0 {
		return errors.New("filename: give the manifests: -f FILE, -f DIRECTORY or -f - for standard input")
	}
	set, err := manifest.Read(cmd.InOrStdin(), s.text("namespace"), s.list("filename")...)
	if err != nil {
		return err
	}
	cluster, err := explain.New(set.Objects, s.list("pod-cidrs"))
	if err != nil {
		return err
	}
	wrong := report(cmd, set, cluster)
	failed, err := answers(cmd, s, cluster, expectations, family)
	switch {
	case err != nil || wrong != nil:
		return errors.Join(err, wrong)
	case failed:
		return &exitError{code: exitRefused}
	}
	return nil
}

// report tells what is wrong with policies, and what was not looked at.
func report(cmd *cobra.Command, set *manifest.Set, cluster *explain.Cluster) error {
	out := cmd.ErrOrStderr()
	for _, note := range set.Notes {
		fmt.Fprintln(out, note)
	}
	count := len(set.Problems)
	for _, p := range set.Problems {
		fmt.Fprintf(out, "%s: error: %v\n", set.Where(p.Object, p.Field), p)
	}
	for _, p := range cluster.Problems() {
		word := "note"
		if !p.Lasting {
			word = "error"
			count++
		}
		fmt.Fprintf(out, "%s: %s: %v\n", set.Where(p.Key().String(), p.Field), word, p)
	}
	var others []string
	for _, kind := range slices.Sorted(maps.Keys(set.Others)) {
		others = append(others, fmt.Sprintf("%d %s", set.Others[kind], kind))
	}
	if len(others) > 0 {
		fmt.Fprintf(out, "not looked at, since no policy depends on them: %s\n", strings.Join(others, ", "))
	}
	switch count {
	case 0:
		return nil
	case 1:
		return errors.New("1 problem; see above")
	}
	return fmt.Errorf("%d problems; see above", count)
}

// expected reads the question of --from and --to, or those of --expect.
func expected(cmd *cobra.Command, s *settings) ([]explain.Expectation, error) {
	from, to, file := s.text("from"), s.text("to"), s.text("expect")
	switch {
	case from == "" && to == "" && file == "":
		return nil, nil
	case file != "" && from+to != "":
		return nil, errors.New("expect: is there beside from or to; ask one connection or check a file, not both")
	case file == "-" && slices.Contains(s.list("filename"), "-"):
		return nil, errors.New("expect: standard input has the manifests already; give a file")
	case file != "":
		text, err := readFile(cmd, file)
		if err != nil {
			return nil, fmt.Errorf("expect: %w", err)
		}
		return explain.ParseExpectations(file, text, s.text("namespace"))
	case from == "" || to == "":
		return nil, errors.New("from, to: a question needs both")
	}
	question, err := explain.ParseQuestion(from, to, s.text("namespace"))
	return []explain.Expectation{{Question: question, Allow: true}}, err
}

// answers prints them; failed says that one is not as expected.
func answers(cmd *cobra.Command, s *settings, cluster *explain.Cluster, expectations []explain.Expectation,
	family string) (failed bool, err error) {
	out := cmd.OutOrStdout()
	if len(expectations) == 0 {
		fmt.Fprint(out, cluster.Summary())
		return false, nil
	}
	var errs []error
	unmet := 0
	for _, e := range expectations {
		answer, err := cluster.Ask(e.Question, family)
		if e.To.Service {
			err = fmt.Errorf("%s: manifests do not say where a Service leads; ask about its pods, at their own port", e.Question)
		}
		switch {
		case err != nil && e.Where != "":
			errs = append(errs, fmt.Errorf("%s: %w", e.Where, err))
		case err != nil:
			errs = append(errs, err)
		case s.text("expect") == "":
			fmt.Fprint(out, answer)
			failed = !answer.Allowed()
		case answer.Mixed() || answer.Allowed() != e.Allow:
			unmet++
			fmt.Fprintf(out, "%s: it should be %s\n%s\n", e.Where, map[bool]string{true: "allowed", false: "refused"}[e.Allow],
				answer)
		}
	}
	if s.text("expect") != "" && len(errs) == 0 {
		fmt.Fprintf(out, "%d of %d expectations are met\n", len(expectations)-unmet, len(expectations))
	}
	return failed || unmet > 0, errors.Join(errs...)
}
