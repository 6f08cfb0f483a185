package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/test/lab"
)

func executedCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "executed",
		Short: "Tell what datapath actions the packets of Windows nodes have met; fails if there is one that Windows " +
			"does not do, or if the record of a node is not whole",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := o.open()
			if err != nil {
				return err
			}
			if err := l.CheckExtension(); err != nil {
				return err
			}
			var errs []error
			for _, node := range l.WindowsNodes() {
				windows, err := l.EmulatedWindows(node)
				if err != nil {
					return err
				}
				names, err := windows.Executed(cmd.Context())
				if names != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", node, strings.Join(names, ", "))
				}
				errs = append(errs, err, lab.Forbidden(node, names))
			}
			return errors.Join(errs...)
		},
	}
}
