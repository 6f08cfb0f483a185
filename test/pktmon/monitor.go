package pktmon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxFilters is how many filters there are at once, by the reference.
const maxFilters = 32

// Component is a place in the machine's network at which packets are seen.
type Component struct {
	ID   int
	Name string
	MAC  net.HardwareAddr
}

// Frame is a packet that passes a component, with its Ethernet header.
type Frame struct {
	At   time.Time
	Data []byte
}

// Stack is the network of a machine.
type Stack interface {
	Components() ([]Component, error)
	// Watch shows the frames that pass a component from now on, until ctx ends or the component is gone. Done is closed
	// when it shows no more.
	Watch(ctx context.Context, c Component, see func(Frame)) (done <-chan struct{}, err error)
}

// Monitor is the driver.
type Monitor struct {
	stack Stack

	mu      sync.Mutex
	filters []filter
	session *session
}

// NewMonitor watches the network of a machine.
func NewMonitor(s Stack) *Monitor { return &Monitor{stack: s} }

// refusal is Packet Monitor's own word for what it does not do.
type refusal string

func (r refusal) Error() string { return string(r) }

// commands of the program, by their words.
var commands = map[string]func(m *Monitor, words []string, log []byte) (answer, error){
	"list":          (*Monitor).list,
	"status":        (*Monitor).status,
	"filter add":    (*Monitor).addFilter,
	"filter list":   (*Monitor).listFilters,
	"filter remove": (*Monitor).removeFilters,
	"start":         (*Monitor).start,
	"stop":          (*Monitor).stop,
	"etl2pcap":      (*Monitor).convert,
}

// run runs a command of the program.
func (m *Monitor) run(ask request) answer {
	words := ask.Args
	for n := min(2, len(words)); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		command, known := commands[name]
		if !known {
			continue
		}
		if slices.Equal(words[n:], []string{helpWord}) {
			return answer{Text: "pktmon " + name + ": see Microsoft's reference; this is a stand-in.\n"}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		said, err := command(m, words[n:], ask.Log)
		if err != nil {
			return answer{Text: err.Error() + "\n", Code: 1}
		}
		return said
	}
	return answer{Text: fmt.Sprintf("Unknown command '%s'. See pktmon help.\n", strings.Join(words, " ")), Code: 1}
}

// list prints JSON alone.
func (m *Monitor) list(words []string, _ []byte) (answer, error) {
	names, o, err := parse(words, listParameters)
	if err != nil || len(names) > 0 || !o.has("--json") {
		return answer{}, errors.Join(errors.New("the stand-in knows `pktmon list --json`"), err)
	}
	components, err := m.stack.Components()
	if err != nil {
		return answer{}, err
	}
	type property struct {
		Name  string
		Value any
	}
	type one struct {
		ID         int `json:"Id"`
		Name, Type string
		Properties []property
	}
	type group struct {
		Group      string
		Components []one
	}
	var groups []group
	for _, c := range components {
		groups = append(groups, group{c.Name, []one{{c.ID, c.Name, "Miniport", []property{{"MAC Address", hyphens(c.MAC)},
			{"ifIndex", c.ID}}}}})
	}
	text, err := json.Marshal(groups)
	return answer{Text: string(text) + "\n"}, err
}

func (m *Monitor) status([]string, []byte) (answer, error) {
	if m.session == nil {
		return answer{Text: "Packet Monitor is not running.\n"}, nil
	}
	return answer{Text: m.session.parameters() + table(m.filters)}, nil
}

func (m *Monitor) addFilter(words []string, _ []byte) (answer, error) {
	f, err := parseFilter(words)
	if err != nil {
		return answer{}, err
	}
	if len(m.filters) == maxFilters {
		return answer{}, fmt.Errorf("there are %d filters already", maxFilters)
	}
	m.filters = append(m.filters, f)
	return answer{Text: "Filter added.\n"}, nil
}

func (m *Monitor) listFilters([]string, []byte) (answer, error) {
	return answer{Text: table(m.filters)}, nil
}

func (m *Monitor) removeFilters([]string, []byte) (answer, error) {
	m.filters = nil
	return answer{Text: "Removed all filters.\n"}, nil
}

func (m *Monitor) start(words []string, _ []byte) (answer, error) {
	names, o, err := parse(words, startParameters)
	switch {
	case err != nil:
		return answer{}, err
	case len(names) > 0 || !o.has("--capture") || o.first("--file-name") == "":
		return answer{}, errors.New("the stand-in knows `pktmon start --capture --file-name NAME`")
	case m.session != nil:
		return answer{}, refusal("Packet Monitor is already started.")
	}
	s, err := m.newSession(o)
	if err != nil {
		return answer{}, err
	}
	m.session = s
	return answer{Text: s.parameters() + table(m.filters), Path: s.file}, nil
}

func (m *Monitor) newSession(o options) (*session, error) {
	s := &session{file: o.first("--file-name"), size: 512, keep: 128, filters: slices.Clone(m.filters)}
	for name, number := range map[string]*int{"--pkt-size": &s.keep, "--file-size": &s.size} {
		if text := o.first(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("invalid value '%s' of %s", text, name)
			}
			*number = int(n)
		}
	}
	if mode := o.first("--log-mode"); mode != "" && mode != "circular" {
		return nil, fmt.Errorf("the stand-in has no log mode '%s'", mode)
	}
	components, err := m.chosen(o["--comp"])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, c := range components {
		done, err := m.stack.Watch(ctx, c, func(f Frame) { s.see(c.ID, f) })
		if err != nil {
			cancel()
			return nil, fmt.Errorf("component %d: %w", c.ID, err)
		}
		s.watching = append(s.watching, done)
	}
	return s, nil
}

// chosen are the components of --comp. All of them are adapters.
func (m *Monitor) chosen(words []string) (chosen []Component, err error) {
	all, err := m.stack.Components()
	if err != nil || len(words) == 0 || words[0] == "all" || words[0] == "nics" {
		return all, err
	}
	for _, word := range words {
		i := slices.IndexFunc(all, func(c Component) bool { return strconv.Itoa(c.ID) == word })
		if i < 0 {
			return nil, fmt.Errorf("there is no component %s", word)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (m *Monitor) stop([]string, []byte) (answer, error) {
	if m.session == nil {
		return answer{}, refusal("Packet Monitor is not running.")
	}
	s := m.session
	m.session = nil
	log, err := s.end()
	return answer{Text: fmt.Sprintf("Flushing logs...\nMerging metadata...\nLog file: %s (No events lost)\n", s.file),
		Path: s.file, File: log}, err
}

func (m *Monitor) convert(words []string, log []byte) (answer, error) {
	names, o, err := parse(words, convertParameters)
	if err != nil || len(names) != 1 {
		return answer{}, errors.Join(errors.New("pktmon etl2pcap needs one file"), err)
	}
	component := 0
	if text := o.first("--component-id"); text != "" {
		if component, err = strconv.Atoi(text); err != nil {
			return answer{}, fmt.Errorf("invalid component '%s'", text)
		}
	}
	file, formatted, total, err := pcapngOf(log, component, o.has("--drop-only"))
	if err != nil {
		return answer{}, err
	}
	out := o.first("--out")
	if out == "" {
		out = strings.TrimSuffix(names[0], path.Ext(names[0])) + ".pcapng"
	}
	return answer{Text: fmt.Sprintf("Processing...\n\nPackets total:       %d\nPacket drop count:   0\n"+
		"Packets formatted:   %d\nFormatted file:      %s\n", total, formatted, out), Path: out, File: file}, nil
}
