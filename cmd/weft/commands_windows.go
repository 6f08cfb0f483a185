package main

import "github.com/spf13/cobra"

// The controller runs on Linux only.
func commands() []*cobra.Command {
	return append(userCommands(), nodeCommand(), serviceCommand(), doctorCommand())
}
