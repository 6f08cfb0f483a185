package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/test/reference"
)

const keysIntroduction = `
A key is a flag, a variable of the environment, and a line of the file that the flag ` + "`--config`" + `
names. The name of the variable is the key in capitals, with ` + "`WEFT_`" + ` before it and ` + "`_`" + ` for ` + "`-`" + `.
These three are the same:

` + "```" + `
weft node --cni-timeout 30s
WEFT_CNI_TIMEOUT=30s weft node
weft node --config FILE       # FILE has the line "cni-timeout: 30s"
` + "```" + `

If a key is set more than once, the flag counts first, then the variable, then the file. A key that
is not set has its default. A file with an unknown key is refused.

Only Linux has ` + "`weft chassis`, `weft controller`, `weft observe`, `weft southbound`" + `,
` + "`weft node await-flows` and `weft node share`" + `.

| value | how it is written |
|---|---|
| text, number | as it is |
| true or false | ` + "`true`, `false`" + `; the flag without a value is ` + "`true`" + ` |
| duration | numbers with units, as ` + "`500ms`, `30s`, `1m30s`" + ` |
| list | in the file, a list of YAML. As a flag or a variable, values with commas between them |

[Configuration](../reference.md#configuration) has examples.
`

// TestReference: docs/reference/keys.md has each key of each command, as --help tells it.
func TestReference(t *testing.T) {
	page := reference.NewPage("Keys, flags and variables", keysIntroduction)
	for _, cmd := range rootCommand().Commands() {
		addCommand(page, cmd)
	}
	page.Section("weft service install, on Windows",
		"Install the service, or change it. No variable and no file sets the flag.")
	page.Table(keysHead, keysOf(flagSet(installFlags)))
	page.Section("weft service start, on Windows", "Start the service. No variable and no file sets the flag.")
	page.Table(keysHead, keysOf(flagSet(startFlags)))
	page.Section("Variables without a flag", "")
	var rows [][]string
	for _, v := range signsOfLife {
		rows = append(rows, []string{reference.Code(v.name), reference.Code(v.value), reference.Sentence(v.usage)})
	}
	page.Table([]string{"variable", "default", "meaning"}, append(rows, []string{"`KUBECONFIG`", "",
		"The kubeconfig file of commands for users, such as `weft status`, and of `weft observe`, if the key `kubeconfig` " +
			"is not set."}, []string{"`NO_COLOR`", "", "If it has a value, answers on a terminal have no colours."}))
	page.Check(t, "keys.md", *update)
}

// commonExits are those of commands that have no codes of their own.
var commonExits = []exitCode{
	{0, "the command has done what it was asked to do; a program that runs until it is stopped was stopped"},
	{failureCode, "it has failed, or the command is wrong; the error says why"},
}

// TestReferenceExitCodes: docs/reference/exit-codes.md has those of each command.
func TestReferenceExitCodes(t *testing.T) {
	page := reference.NewPage("Exit codes", `
If a command has no section on this page, it has the exit codes of the first section. If weft finds
a mistake in the command line, it ends with the last code of the command's section, and
`+"`weft service status`"+` with 1. If the word after `+"`weft policy`"+` is unknown, it ends with 2, and after
`+"`weft connectivity`"+` with 3.`)
	addExitCodes(page, "All other commands", commonExits)
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		if codes := exitCodes(cmd); len(codes) > 0 {
			addExitCodes(page, cmd.CommandPath(), codes)
		}
		for _, verb := range cmd.Commands() {
			add(verb)
		}
	}
	add(rootCommand())
	addExitCodes(page, "weft service status, on Windows", statusExits)
	page.Check(t, "exit-codes.md", *update)
}

func addExitCodes(page *reference.Page, title string, codes []exitCode) {
	var rows [][]string
	for _, c := range codes {
		rows = append(rows, []string{strconv.Itoa(c.number), reference.Sentence(c.meaning)})
	}
	page.Section(title, "")
	page.Table([]string{"code", "meaning"}, rows)
}

// TestReferencePorts: docs/reference/ports.md has each port, and that of each key which has one by default.
func TestReferencePorts(t *testing.T) {
	page := reference.NewPage("Ports", `
These are the ports of hosts at which Weft's programs listen, and the programs of OVN and strongSwan
that Weft needs. Open each port to the clients in its row, and to nobody else. If the row has a key,
the program that listens can have another port by this key. Between nodes with encryption, IP
protocol 50 (ESP) must pass, too. [Who talks to whom](../security.md#who-talks-to-whom) explains how
the two ends of a connection know each other.

The ports of your Services and pods are not in the table: NodePorts, each `+"`healthCheckNodePort`"+` and
host ports. [Services](../services.md) describes them. Neither is the port of `+"`weft ui`"+`, which
listens only at 127.0.0.1.`)
	var rows [][]string
	for _, p := range contract.Ports {
		rows = append(rows, []string{fmt.Sprintf("%s %d", strings.ToUpper(p.Protocol), p.Number), p.Opener, p.Clients,
			p.Purpose, reference.Code(p.Key)})
	}
	page.Table([]string{"port", "opened by", "open to", "for", "key"}, rows)
	page.Check(t, "ports.md", *update)
	check := func(f *pflag.Flag) {
		number := portOf(f.DefValue)
		if number != 0 && !slices.ContainsFunc(contract.Ports, func(p contract.Port) bool {
			return p.Protocol == "tcp" && p.Number == number && p.Key == f.Name
		}) {
			t.Errorf("key %s has the port %d by default, which is not in contract.Ports", f.Name, number)
		}
	}
	for _, cmd := range rootCommand().Commands() {
		cmd.Flags().VisitAll(check)
	}
	nodeKeys(nodeconfig.WindowsDefault(nodeconfig.ProgramData, nodeconfig.ProgramFiles), windowsFlags).VisitAll(check)
}

// portOf is the port of a HOST:PORT, 0 of another text.
func portOf(text string) uint16 {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return 0
	}
	number, _ := strconv.ParseUint(port, 10, 16) // 0 of a text that is no number, as "/var/run/ovn"
	return uint16(number)
}

var keysHead = []string{"key", "value", "default", "meaning"}

// addCommand adds a section for a command and each of its verbs.
func addCommand(page *reference.Page, cmd *cobra.Command) {
	switch {
	case cmd.CommandPath() == "weft node":
		addAgent(page, cmd)
	case takesAgentKeys(cmd):
		page.Section(cmd.CommandPath(), cmd.Short+". It takes the keys of `weft node`.")
		if own := beside(cmd.Flags(), nodeCommand().Flags()); own.HasFlags() {
			page.Table(keysHead, keysOf(own))
		}
	case cmd.Flags().HasFlags():
		page.Section(cmd.CommandPath(), cmd.Short+".")
		page.Table(keysHead, keysOf(cmd.Flags()))
	}
	for _, verb := range cmd.Commands() {
		addCommand(page, verb)
	}
}

// beside are the flags that others lack, or have with another default.
func beside(flags, others *pflag.FlagSet) *pflag.FlagSet {
	return flagSet(func(own *pflag.FlagSet) {
		flags.VisitAll(func(f *pflag.Flag) {
			if other := others.Lookup(f.Name); other == nil || other.DefValue != f.DefValue {
				own.AddFlag(f)
			}
		})
	})
}

// takesAgentKeys says whether a command has the keys of the agent beside its own.
func takesAgentKeys(cmd *cobra.Command) bool { return cmd.Flags().Lookup("cni-socket") != nil }

// addAgent adds the keys of `weft node`, of each system.
func addAgent(page *reference.Page, cmd *cobra.Command) {
	windows := nodeconfig.WindowsDefault(nodeconfig.ProgramData, nodeconfig.ProgramFiles)
	common := nodeKeys(nodeconfig.LinuxDefault(), nil)
	onLinux := flagSet(func(f *pflag.FlagSet) { linuxFlags(f, nodeconfig.LinuxDefault()) })
	cmd.Flags().VisitAll(func(f *pflag.Flag) { // such as log-level, which is no key of the agent's alone
		if common.Lookup(f.Name) == nil && onLinux.Lookup(f.Name) == nil {
			common.AddFlag(f)
		}
	})
	rows := keysOf(common)
	onWindows := nodeKeys(windows, nil)
	for _, row := range rows {
		there := onWindows.Lookup(strings.Trim(row[0], "`"))
		if there != nil && defaultOf(there) != row[2] {
			row[2] += ", on Windows " + defaultOf(there)
		}
	}
	page.Section(cmd.CommandPath(), cmd.Short+".")
	page.Table(keysHead, rows)
	page.Section(cmd.CommandPath()+", on Linux", "Only Linux nodes have these keys.")
	page.Table(keysHead, keysOf(onLinux))
	page.Section(cmd.CommandPath()+", on Windows", "Only Windows nodes have these keys.")
	page.Table(keysHead, keysOf(flagSet(func(f *pflag.FlagSet) { windowsFlags(f, windows) })))
}

func nodeKeys(defaults nodeconfig.Config, system func(*pflag.FlagSet, nodeconfig.Config)) *pflag.FlagSet {
	return flagSet(func(f *pflag.FlagSet) {
		nodeFlags(f, defaults)
		if system != nil {
			system(f, defaults)
		}
	})
}

func flagSet(add func(*pflag.FlagSet)) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(f)
	return f
}

// keysOf are the rows of a table of keys.
func keysOf(flags *pflag.FlagSet) (rows [][]string) {
	kinds := map[string]string{"string": "text", "int": "number", "bool": "true or false", "duration": "duration",
		"stringSlice": "list"}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, known := kinds[f.Value.Type()]
		if !known {
			panic(fmt.Sprintf("key %s has values of a kind that the reference does not explain: %s", f.Name, f.Value.Type()))
		}
		name := reference.Code(f.Name)
		if f.Shorthand != "" {
			name += ", " + reference.Code("-"+f.Shorthand)
		}
		rows = append(rows, []string{name, kind, defaultOf(f), reference.Sentence(f.Usage)})
	})
	return rows
}

func defaultOf(f *pflag.Flag) string {
	if _, ofHost := f.Annotations[hostDefault]; ofHost {
		return "the host's name"
	}
	text := f.DefValue
	switch f.Value.Type() {
	case "stringSlice":
		text = strings.ReplaceAll(strings.Trim(text, "[]"), ",", ", ")
	case "duration":
		text = strings.TrimSuffix(text, "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(text, "m0s")]
	}
	return reference.Code(text)
}

// readers are the ways by which the commands read a key, and the place of the key among the arguments.
var readers = map[string]int{"text": 0, "list": 0, "prefixes": 0, "addresses": 0, "address": 0, "integer": 0,
	"boolean": 0, "duration": 0, "scalar": 1, "parseList": 1}

// TestKeysAreFlags: the code reads no key that is no flag, which would never have a value.
func TestKeysAreFlags(t *testing.T) {
	keys := nodeKeys(nodeconfig.LinuxDefault(), linuxFlags)
	windowsFlags(keys, nodeconfig.LinuxDefault())
	known := map[string]bool{} // of all commands, which may have one letter for different flags
	note := func(f *pflag.Flag) { known[f.Name] = true }
	keys.VisitAll(note)
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(note)
		for _, verb := range cmd.Commands() {
			add(verb)
		}
	}
	add(rootCommand())
	read := 0
	for key, at := range keysRead(t) {
		if read++; !known[key] {
			t.Errorf("%s: reads the key %s, and no command has the flag", at, key)
		}
	}
	if read < 60 {
		t.Errorf("only %d keys were found to be read", read)
	}
}

// keysRead are the keys that this package's files read, and where.
func keysRead(t *testing.T) map[string]token.Position {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found, positions := map[string]token.Position{}, token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(positions, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if key, ok := keyRead(n); ok {
				found[key] = positions.Position(n.Pos())
			}
			return true
		})
	}
	return found
}

// keyRead is the key that a call reads.
func keyRead(n ast.Node) (key string, ok bool) {
	call, _ := n.(*ast.CallExpr)
	if call == nil {
		return "", false
	}
	var name string
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	at, reads := readers[name]
	if !reads || at >= len(call.Args) {
		return "", false
	}
	literal, _ := call.Args[at].(*ast.BasicLit)
	if literal == nil {
		return "", false
	}
	key, err := strconv.Unquote(literal.Value)
	return key, err == nil
}
