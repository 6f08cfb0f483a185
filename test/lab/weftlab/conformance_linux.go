package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/test/lab"
)

const (
	project = "https://github.com/weftnet/weft"
	// Features of ClusterNetworkPolicy beyond those that every implementation has.
	experimentalFeatures = "ClusterNetworkPolicyNamedPorts,ClusterNetworkPolicyEgressNodePeers"
)

func conformanceCommand(o *options) *cobra.Command {
	var run, report string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "conformance [-- TEST-ARGS...]",
		Short: "Run the Network Policy API's conformance tests, those of ClusterNetworkPolicy, against the lab",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := regexp.Compile(run); err != nil {
				return fmt.Errorf("--run: %w", err)
			}
			if run != "" && report != "" { // the tests that are not run would count as passed
				return errors.New("--run and --report exclude each other: a report is of all tests")
			}
			l, err := o.open()
			if err != nil {
				return err
			}
			version, err := weftVersion(l.Bin)
			if err != nil {
				return err
			}
			argv := []string{filepath.Join(l.Bin, "lab", "policy-conformance"), "-test.v", "-test.timeout=" + timeout.String(),
				"-test.run=^TestConformanceProfiles$/" + run,
				"-conformance-profiles=ClusterNetworkPolicy", "-supported-features=" + experimentalFeatures,
				"-organization=weftnet", "-project=weft", "-url=" + project, "-version=" + version,
				"-contact=" + project + "/issues", "-additional-info=" + project + "/blob/main/docs/conformance.md"}
			if report != "" {
				if report, err = filepath.Abs(report); err != nil {
					return err
				}
				if err := os.MkdirAll(filepath.Dir(report), 0o755); err != nil {
					return err
				}
				argv = append(argv, "-report-output="+report)
			}
			command, err := l.EnterNetwork(lab.Central, append(argv, args...)...)
			if err != nil {
				return err
			}
			return become(command)
		},
	}
	f := cmd.Flags()
	f.StringVar(&run, "run", "", "regular expression of the tests to run, CNPAdminTier for example; of a test's parts "+
		"after a slash")
	f.StringVar(&report, "report", "", "file for the ConformanceReport")
	f.DurationVar(&timeout, "timeout", time.Hour, "of the whole run")
	return cmd
}

// weftVersion is what the lab's weft says that it is.
func weftVersion(bin string) (string, error) {
	out, err := exec.Command(filepath.Join(bin, "weft"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("weft --version: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "weft version "), nil
}
