package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/test/lab"
)

func e2eCommand(o *options) *cobra.Command {
	var focus, skip, junit string
	var procs int
	var dryRun bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "e2e [-- GINKGO-ARGS...]",
		Short: "Run Kubernetes' official end-to-end tests against the lab",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			for flag, expression := range map[string]string{"focus": focus, "skip": skip} {
				if _, err := regexp.Compile(expression); err != nil {
					return fmt.Errorf("--%s: %w", flag, err)
				}
			}
			if dryRun { // Ginkgo lists specs in one process only, and names them only if asked to
				procs, args = 1, append([]string{"-v", "--silence-skips"}, args...)
			}
			l, err := o.open()
			if err != nil {
				return err
			}
			bin := filepath.Join(l.Bin, "lab")
			argv := []string{filepath.Join(bin, "ginkgo"), "run", fmt.Sprintf("--procs=%d", procs), "--no-color",
				"--focus=" + focus, "--skip=" + skip, "--timeout=" + timeout.String(), fmt.Sprintf("--dry-run=%t", dryRun)}
			if junit != "" {
				if junit, err = filepath.Abs(junit); err != nil {
					return err
				}
				if err := os.MkdirAll(filepath.Dir(junit), 0o755); err != nil {
					return err
				}
				argv = append(argv, "--output-dir="+filepath.Dir(junit), "--junit-report="+filepath.Base(junit))
			}
			argv = append(append(argv, args...), filepath.Join(bin, "e2e.test"), "--",
				"--kubeconfig="+l.Kubeconfig(), "--provider=skeleton", "--kubectl-path="+filepath.Join(bin, "kubectl"),
				// Only the first of several processes counts the nodes by itself; the others would skip specs.
				fmt.Sprintf("--num-nodes=%d", len(l.Registered())),
				"--node-os-distro=debian", "--disable-log-dump", "--node-schedulable-timeout=60s")
			command, err := l.EnterNetwork(lab.Central, argv...)
			if err != nil {
				return err
			}
			return become(command)
		},
	}
	f := cmd.Flags()
	f.StringVar(&focus, "focus", `\[sig-network\].*\[Conformance\]`, "regular expression of the specs to run")
	f.StringVar(&skip, "skip", `\[Serial\]|\[Disruptive\]`, "regular expression of those of them to leave out")
	f.IntVar(&procs, "procs", 4, "specs that run at the same time")
	f.StringVar(&junit, "junit", "", "file for a JUnit report")
	f.BoolVar(&dryRun, "dry-run", false, "only list the specs")
	f.DurationVar(&timeout, "timeout", time.Hour, "of the whole run")
	return cmd
}
