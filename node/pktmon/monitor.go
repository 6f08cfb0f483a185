package pktmon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/models/hostfile"
)

const (
	// commandTime bounds a command that changes or tells something.
	commandTime = 30 * time.Second
	// megabyte is pktmon's unit of a log's size, in bytes. minLog and maxLog bound what is asked for, in megabytes.
	megabyte       = 1 << 20
	minLog, maxLog = 16, 1024
	// maxSaid bounds what an error repeats of a command's output, in bytes.
	maxSaid = 500
)

var (
	logFile = &hostfile.File{
		Path: "{state-dir}/capture/weft.etl", Mode: 0o600,
		Content: "Packets of a capture, as Packet Monitor writes them (Windows).",
		Loss:    "The capture has no packets. The file is removed when they have been sent, or when the agent starts.",
	}
	packetsFile = &hostfile.File{
		Path: "{state-dir}/capture/weft.pcapng", Mode: 0o600,
		Content: "Packets of a capture that has ended, while they are sent (Windows).",
		Loss:    "The same as for weft.etl.",
	}
)

// Program is where Windows has pktmon.exe.
func Program() string { return os.Getenv("SystemRoot") + `\System32\pktmon.exe` }

// Check asks the program for its help on what the package needs of it last. An error without the program is
// [fs.ErrNotExist].
func Check(ctx context.Context, program string) error {
	_, err := (&Monitor{program: program}).run(ctx, "etl2pcap", "help")
	return err
}

// Monitor is the machine's Packet Monitor.
type Monitor struct {
	program string
	folder  string
	session sync.Mutex // is held while there is a session of ours
}

// New is the Packet Monitor whose program this is. Its files are in the folder, which it makes when it needs it.
func New(program, folder string) *Monitor { return &Monitor{program: program, folder: folder} }

func (m *Monitor) log() string     { return logFile.In(m.folder) }
func (m *Monitor) packets() string { return packetsFile.In(m.folder) }

// Reclaim ends the session that an earlier process has left, and removes its filters and files.
func (m *Monitor) Reclaim(ctx context.Context) error {
	m.session.Lock()
	defer m.session.Unlock()
	return m.end(ctx)
}

// Capture says what is captured.
type Capture struct {
	// Adapter is the MAC address that each packet comes from or goes to.
	Adapter net.HardwareAddr
	// Filters choose packets that fit one of them. At least one is needed.
	Filters []Filter
	// SnapLength is how many bytes are kept of each packet; 0 is all.
	SnapLength int
	// Bytes is how large the log may become. When it is full, each packet takes the place of the oldest.
	Bytes int64
}

// Session is a capture of ours. Close must be called.
type Session struct {
	monitor   *Monitor
	component int // 0: any
}

// Start begins a capture. It refuses if there is another one on the machine, whosever it is.
func (m *Monitor) Start(ctx context.Context, c Capture) (*Session, error) {
	if !m.session.TryLock() {
		return nil, errors.New("a capture is under way on the node, and Packet Monitor makes one at a time; try again " +
			"when it has ended")
	}
	if err := m.prepare(ctx); err != nil {
		m.session.Unlock()
		return nil, err
	}
	s := &Session{monitor: m}
	if err := s.begin(ctx, c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare sees to it that nothing is in the way of a session.
func (m *Monitor) prepare(ctx context.Context) error {
	if _, err := os.Stat(m.program); err != nil {
		return fmt.Errorf("the node has no Packet Monitor, which Windows Server 2022 and later have: %w", err)
	}
	if err := m.end(ctx); err != nil { // what Close could not end
		return err
	}
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return err
	}
	return m.free(ctx)
}

func (s *Session) begin(ctx context.Context, c Capture) error {
	m := s.monitor
	list, err := m.run(ctx, "list", "--json")
	if err != nil {
		return err
	}
	if s.component, err = componentOf(list, c.Adapter); err != nil {
		return err
	}
	for _, f := range c.Filters {
		if _, err := m.run(ctx, f.arguments(c.Adapter)...); err != nil {
			return err
		}
	}
	_, err = m.run(ctx, c.arguments(m.log(), s.component)...)
	return err
}

// arguments begin a session.
func (c Capture) arguments(log string, component int) []string {
	size := min(max((c.Bytes+megabyte-1)/megabyte, minLog), maxLog)
	arguments := []string{"start", "--capture", "--pkt-size", strconv.Itoa(c.SnapLength), "--file-name", log,
		"--file-size", strconv.FormatInt(size, 10), "--log-mode", "circular"}
	if component != 0 {
		arguments = append(arguments, "--comp", strconv.Itoa(component))
	}
	return arguments
}

// free demands that nobody uses Packet Monitor: a filter that is added would change another's capture, too, and the
// filters of another would change this one.
func (m *Monitor) free(ctx context.Context) error {
	now, err := m.state(ctx)
	if err != nil {
		return err
	}
	if now.running {
		return fmt.Errorf("the node's Packet Monitor is in use (%s), and has one capture at a time: ask the node's "+
			"administrators who has begun that, or wait; `pktmon stop` would end it",
			strings.Join(strings.Fields(now.log), " "))
	}
	filters, err := m.filters(ctx)
	if err == nil && filters.others > 0 {
		err = errors.New("the node's Packet Monitor has filters that somebody has set, and they would change this " +
			"capture: an administrator looks at them by `pktmon filter list`, and removes them by `pktmon filter remove`")
	}
	return err
}

// Finish ends the capture. The file has its packets, as pcapng, until Close. Lost is how many of them Packet Monitor
// has lost, as far as it says so.
func (s *Session) Finish(ctx context.Context) (file string, lost uint64, err error) {
	m := s.monitor
	said, err := m.stop(ctx)
	if err != nil {
		return "", 0, err
	}
	arguments := []string{"etl2pcap", m.log(), "--out", m.packets()}
	if s.component != 0 {
		arguments = append(arguments, "--component-id", strconv.Itoa(s.component))
	}
	if _, err := m.runFor(ctx, ConversionTime, arguments...); err != nil {
		return "", 0, err
	}
	return m.packets(), eventsLost(said), nil
}

// ConversionTime is how long Packet Monitor may take to write its packets as pcapng.
const ConversionTime = 2 * time.Minute

// Close ends the capture, and leaves nothing of it. After an error, the next Start or Reclaim tries again.
func (s *Session) Close() error {
	defer s.monitor.session.Unlock()
	return s.monitor.end(context.Background())
}

// end leaves nothing of ours, except filters that somebody else's stand beside. Before the first capture there is no
// folder, and nothing to end.
func (m *Monitor) end(ctx context.Context) error {
	if _, err := os.Stat(m.folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := m.stop(ctx)
	if err == nil { // the log is no longer written
		err = errors.Join(remove(m.log()), remove(m.packets()))
	}
	return errors.Join(err, m.removeFilters(ctx))
}

func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stop ends the session if it is ours, and gives what Packet Monitor says to that.
func (m *Monitor) stop(ctx context.Context) (said string, err error) {
	now, err := m.state(ctx)
	if err != nil || !now.ours {
		return "", err
	}
	return m.run(ctx, "stop")
}

// removeFilters removes ours. Packet Monitor removes all or none.
func (m *Monitor) removeFilters(ctx context.Context) error {
	filters, err := m.filters(ctx)
	switch {
	case err != nil || filters.ours == 0:
		return err
	case filters.others > 0:
		return fmt.Errorf("filters %q of Packet Monitor stay on the node, since they can only be removed with those that "+
			"somebody else has set: an administrator does so by `pktmon filter remove`", filterName)
	}
	_, err = m.run(ctx, "filter", "remove")
	return err
}

func (m *Monitor) state(ctx context.Context) (state, error) {
	text, err := m.run(ctx, "status")
	if err != nil {
		return state{}, err
	}
	return readState(text, m.log()), nil
}

func (m *Monitor) filters(ctx context.Context) (filters, error) {
	text, err := m.run(ctx, "filter", "list")
	if err != nil {
		return filters{}, err
	}
	return readFilters(text), nil
}

// run has pktmon run a command, and gives what it prints.
func (m *Monitor) run(ctx context.Context, arguments ...string) (string, error) {
	return m.runFor(ctx, commandTime, arguments...)
}

func (m *Monitor) runFor(ctx context.Context, limit time.Duration, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, m.program, arguments...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		said := strings.Join(strings.Fields(errs.String()+" "+out.String()), " ")
		return "", fmt.Errorf("%s %s: %w: %.*s", filepath.Base(m.program), strings.Join(arguments, " "),
			errors.Join(err, ctx.Err()), maxSaid, said)
	}
	return out.String(), nil
}
