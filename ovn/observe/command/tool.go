// Package command runs those commands of ovn-nbctl and ovn-sbctl that only read.
//
// What users may ask is a list of commands and of options: whatever is on neither is refused, also what later versions
// bring. The sockets behind it are read-only, and the programs commit nothing (--dry-run).
package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// Bounds of what one command is told.
const (
	maxArguments = 32
	maxArgument  = 1024 // bytes
)

// Tool is a program of OVN, and what of it may be run.
type Tool struct {
	// Name is how users call it.
	Name string
	// Program is the program of the door's host.
	Program string
	// commands are those that only read, each with the options of its own.
	commands map[string][]string
}

// output are options of all commands: how their answers look.
var output = []string{"--format", "--data", "--no-headings", "--pretty", "--bare", "--oneline", "--max-column-width"}

// Tools are the programs by their names.
var Tools = map[string]*Tool{
	api.NorthboundCommand: {api.NorthboundCommand, "ovn-nbctl", merged(databaseCommands, map[string][]string{
		"show": nil, "ls-list": nil, "lr-list": nil, "mirror-list": nil, "meter-list": nil, "dhcp-options-list": nil,
		"static-mac-binding-list": nil,

		"acl-list": {"--type"}, "qos-list": nil, "lsp-list": nil, "ls-lb-list": nil, "lb-list": nil, "fwd-group-list": nil,
		"lrp-list": nil, "lr-route-list": {"--route-table"}, "lr-policy-list": nil, "lr-nat-list": nil, "lr-lb-list": nil,
		"copp-list": nil, "ha-chassis-group-list": nil, "dhcp-options-get-options": nil,

		"lsp-get-addresses": nil, "lsp-get-dhcpv4-options": nil, "lsp-get-dhcpv6-options": nil, "lsp-get-enabled": nil,
		"lsp-get-ls": nil, "lsp-get-options": nil, "lsp-get-parent": nil, "lsp-get-port-security": nil, "lsp-get-tag": nil,
		"lsp-get-type": nil, "lsp-get-up": nil, "lrp-get-enabled": nil, "lrp-get-gateway-chassis": nil,
		"lrp-get-redirect-type": nil,
	})},
	// Without --ovs, --stats and --vflows of lflow-list, which would have the program connect to Open vSwitch.
	api.SouthboundCommand: {api.SouthboundCommand, "ovn-sbctl", merged(databaseCommands, map[string][]string{
		"show": nil, "lflow-list": {"--uuid"}, "dump-flows": {"--uuid"}, "count-flows": nil,
	})},
}

// databaseCommands read any database. Without --id of get, which would name a row for a command that writes.
var databaseCommands = map[string][]string{
	"list": {"--columns", "--if-exists"}, "find": {"--columns"}, "get": {"--if-exists"}, "get-connection": nil,
}

func merged(all ...map[string][]string) map[string][]string {
	commands := map[string][]string{}
	for _, some := range all {
		maps.Copy(commands, some)
	}
	return commands
}

// Check says why arguments are not those of one command that only reads: options, each with its value after an equals
// sign, the command, and its arguments.
func (t *Tool) Check(arguments []string) error {
	if len(arguments) > maxArguments {
		return fmt.Errorf("%d arguments are more than %d; ask for less", len(arguments), maxArguments)
	}
	for i, a := range arguments {
		switch {
		case len(a) > maxArgument:
			return fmt.Errorf("argument %d has %d bytes, more than %d; ask for less", i+1, len(a), maxArgument)
		case strings.ContainsRune(a, 0):
			return fmt.Errorf("argument %d has a NUL; leave it out", i+1)
		}
	}
	at := slices.IndexFunc(arguments, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if at < 0 {
		return fmt.Errorf("there is no command; give one of %s", t.list())
	}
	command := arguments[at]
	options, known := t.commands[command]
	if !known {
		return fmt.Errorf("command %q is none of those that only read; give one of %s", command, t.list())
	}
	options = slices.Concat(output, options)
	for _, option := range arguments[:at] {
		if name, _, _ := strings.Cut(option, "="); !slices.Contains(options, name) {
			return fmt.Errorf("option %q of command %s is not served; give one of %s, with values as in --format=json",
				name, command, strings.Join(options, ", "))
		}
	}
	for _, a := range arguments[at+1:] {
		if strings.HasPrefix(a, "-") {
			return fmt.Errorf("argument %q of command %s begins with a hyphen; give options before the command, and one "+
				"command at a time", a, command)
		}
	}
	return nil
}

// list is the commands for people.
func (t *Tool) list() string { return strings.Join(slices.Sorted(maps.Keys(t.commands)), ", ") }
