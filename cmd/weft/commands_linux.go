package main

import "github.com/spf13/cobra"

func commands() []*cobra.Command {
	return append(userCommands(), controllerCommand(), nodeCommand(), chassisCommand(), southboundCommand(),
		observeCommand(), doctorCommand())
}
