package pktmon

import (
	"fmt"
	"slices"
	"strings"
)

// helpWord asks for help on a command.
const helpWord = "help"

// options are the parameters of a command, by their first spelling, each with its values.
type options map[string][]string

// parameter is one that a command takes.
type parameter struct {
	spellings   []string // the first is its name here
	least, most int      // values
}

func flag(spellings ...string) parameter        { return parameter{spellings, 0, 0} }
func value(spellings ...string) parameter       { return parameter{spellings, 1, 1} }
func valueOrTwo(spellings ...string) parameter  { return parameter{spellings, 1, 2} }
func valueOrMore(spellings ...string) parameter { return parameter{spellings, 1, 32} }

// Parameters that the agent's commands may have.
var (
	startParameters = []parameter{flag("--capture", "-c"), valueOrMore("--comp"), value("--type"), value("--pkt-size"),
		value("--file-name", "-f"), value("--file-size", "-s"), value("--log-mode", "-m")}
	filterParameters = []parameter{valueOrTwo("--mac-address", "--mac", "-m"),
		value("--data-link", "--data-link-protocol", "--ethertype", "-d"),
		value("--transport-protocol", "--transport", "--ip-protocol", "-t"),
		valueOrTwo("--ip-address", "--ip", "-i"), valueOrTwo("--port", "-p")}
	convertParameters = []parameter{value("--out", "-o"), flag("--drop-only", "-d"), value("--component-id", "-c")}
	listParameters    = []parameter{flag("--json"), flag("--all", "-a"), flag("--include-hidden", "-i")}
)

// parse reads the words behind a command: those before the first parameter, and the parameters.
func parse(words []string, known []parameter) (names []string, o options, err error) {
	o = options{}
	for len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		names, words = append(names, words[0]), words[1:]
	}
	for len(words) > 0 {
		i := slices.IndexFunc(known, func(p parameter) bool { return slices.Contains(p.spellings, words[0]) })
		if i < 0 {
			return nil, nil, fmt.Errorf("unknown parameter '%s'", words[0])
		}
		p, end := known[i], 1
		for end < len(words) && !strings.HasPrefix(words[end], "-") {
			end++
		}
		if _, again := o[p.spellings[0]]; again || end-1 < p.least || end-1 > p.most {
			return nil, nil, fmt.Errorf("invalid use of parameter '%s'", words[0])
		}
		o[p.spellings[0]], words = words[1:end], words[end:]
	}
	return names, o, nil
}

// first is the value of a parameter, "" without.
func (o options) first(name string) string {
	if values := o[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func (o options) has(name string) bool {
	_, there := o[name]
	return there
}
