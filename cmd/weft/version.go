package main

import (
	"github.com/spf13/cobra"

	"github.com/weftnet/weft/models/version"
)

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program, and of the OVN and Open vSwitch that it is made for",
		Args:  cobra.NoArgs,
	}
	output := cmd.Flags().StringP("output", "o", "text", "text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return version.Current().Write(cmd.OutOrStdout(), *output)
	}
	return cmd
}
