package main

import "github.com/spf13/cobra"

// The controller runs on Linux only.
func commands() []*cobra.Command {
	return []*cobra.Command{nodeCommand(), serviceCommand(), doctorCommand(), statusCommand(), traceCommand(),
		policyCommand(), versionCommand()}
}
