package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// exitCode is one with which a command ends, and its meaning.
type exitCode struct {
	number  int
	meaning string
}

// failureCode is that of commands that have no codes of their own.
const failureCode = 1

// exitAnnotation begins the annotations of a command with its exit codes.
const exitAnnotation = "exit code "

// endsWith puts the exit codes of a command into its help, and where the reference finds them.
func endsWith(cmd *cobra.Command, codes ...exitCode) {
	var help strings.Builder
	help.WriteString("\n\nExit codes:")
	cmd.Annotations = map[string]string{}
	for _, c := range codes {
		fmt.Fprintf(&help, "\n  %d  %s", c.number, c.meaning)
		cmd.Annotations[exitAnnotation+strconv.Itoa(c.number)] = c.meaning
	}
	cmd.Long += help.String()
}

// exitCodes are those that a command has of its own, in order.
func exitCodes(cmd *cobra.Command) (codes []exitCode) {
	for _, key := range slices.Sorted(maps.Keys(cmd.Annotations)) {
		if number, ok := strings.CutPrefix(key, exitAnnotation); ok {
			n, _ := strconv.Atoi(number) // as endsWith has written it
			codes = append(codes, exitCode{n, cmd.Annotations[key]})
		}
	}
	return codes
}
