package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/weftnet/weft/models/version"
	"github.com/weftnet/weft/node/doctor"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/tunnel"
)

const doctorHelp = `Examine this node: say what is wrong with it and what to do about it.

Run it before the agent is installed, and whenever something does not work. It changes nothing. It takes the
keys of "weft node", from the same file, so that it checks what the agent would use. Some checks need the
rights of root or of an administrator, and say so where they lack them.

The JSON is one object: schema ("weft.net/doctor/v1"), version, node, os, time, result (the worst state),
counts (findings of each state) and findings, a list of objects with check, state ("ok", "unknown", "warning"
or "failed"), detail and, where there is something to do, remedy.`

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine this node and say what is wrong with it",
		Long:  doctorHelp,
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "all is well"},
		exitCode{doctor.ExitWarning, "nothing has failed; there are warnings, or checks without a result"},
		exitCode{doctor.ExitFailed, "something has failed"},
		exitCode{doctor.ExitNotAsked, "there is no report: the command is wrong, log-level has a wrong value, the file of " +
			"--config cannot be read or has an unknown key, or the command was interrupted or could not print the report"})
	cmd.Flags().AddFlagSet(nodeCommand().Flags())
	quiet := cmd.Flags().Lookup("log-level") // the report has what matters
	quiet.DefValue = "error"
	_ = quiet.Value.Set("error") // a text takes any
	cmd.Flags().String("output", "text", "form of the report: text or json")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{doctor.ExitNotAsked, err} })
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := cobra.NoArgs(cmd, args); err != nil {
			return &exitError{doctor.ExitNotAsked, err}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		return examine(cmd)
	}
	return cmd
}

func examine(cmd *cobra.Command) error {
	settings, err := loadSettings(cmd)
	if err != nil {
		return &exitError{doctor.ExitNotAsked, err}
	}
	write, known := map[string]func(*doctor.Report, io.Writer) error{
		"text": (*doctor.Report).WriteText, "json": writeJSON}[settings.text("output")]
	if !known {
		return &exitError{doctor.ExitNotAsked, fmt.Errorf("output: %q is neither \"text\" nor \"json\"",
			settings.text("output"))}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(settings.text("log-level"))); err != nil {
		return &exitError{doctor.ExitNotAsked, fmt.Errorf("log-level: %w; it is debug, info, warn or error", err)}
	}
	// Never to the agent's own log, even where the file names one.
	slog.SetDefault(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})))
	klog.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	config, problem := nodeConfig(settings)
	report := doctor.Run(cmd.Context(), doctorConfig(config, problem))
	if err := cmd.Context().Err(); err != nil {
		return &exitError{doctor.ExitNotAsked, fmt.Errorf("interrupted: %w", err)}
	}
	if err := write(report, cmd.OutOrStdout()); err != nil {
		return &exitError{doctor.ExitNotAsked, fmt.Errorf("print the report: %w", err)}
	}
	if code := report.ExitCode(); code != doctor.ExitOK {
		return &exitError{code: code}
	}
	return nil
}

func writeJSON(report *doctor.Report, w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func doctorConfig(c nodeconfig.Config, problem error) doctor.Config {
	config := doctor.Config{
		Version: version.Version(), Problem: problem,
		Kubeconfig: c.Kubeconfig, NodeName: c.NodeName,
		OVNSouthbound: c.OVNSouthbound, OVNRunDir: c.OVNRunDir, OVSDatabase: c.OVSDatabase, OVSOpenFlow: c.OVSOpenFlow,
		OVSControl:   c.OVSControl,
		DatapathType: c.DatapathType, EncapAddress: c.EncapAddress, UplinkMTU: c.UplinkMTU,
		Encrypted: c.Encryption == ipsec.Begin || c.Encryption == ipsec.Enforce,
		CNISocket: c.CNISocket, CNIConfDir: c.CNIConfDir, CNIConfName: c.CNIConfName,
		MetricsAddress: c.MetricsAddress, StateDir: c.StateDir,
		Hosted: c.Chassis == nodeconfig.ChassisHosted, TunnelAddress: c.TunnelAddress,
		TunnelName: tunnel.AgentName(c.NodeName),
		TunnelCA:   c.TunnelCA, TunnelCertificate: c.TunnelCertificate, TunnelPrivateKey: c.TunnelPrivateKey,
		// as `weft.exe service install` makes it
		Adapter: c.Adapter, HNSNetwork: c.HNSNetwork, OVSDriver: c.OVSDriver, ConntrackLookup: c.ConntrackLookup,
		Service: "weft-node",
	}
	if config.StateDir == "" {
		config.StateDir = filepath.Dir(c.CNISocket)
	}
	return config
}
