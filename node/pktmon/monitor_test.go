package pktmon

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	standin "github.com/weftnet/weft/test/pktmon"
)

func TestMain(m *testing.M) {
	standin.MainOfTests()
	os.Exit(m.Run())
}

var (
	pod   = mustMAC("0a:58:0a:f4:01:03")
	other = mustMAC("0a:58:0a:f4:01:04")
)

func mustMAC(text string) net.HardwareAddr {
	mac, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return mac
}

// frame is one of no protocol, from one address to another.
func frame(from, to net.HardwareAddr) standin.Frame {
	data := append(append(append([]byte{}, to...), from...), make([]byte, 60)...)
	return standin.Frame{At: time.Unix(1700000000, 0), Data: data}
}

// scene is a machine with a Packet Monitor, and two who use it: an agent, and somebody else.
type scene struct {
	t       *testing.T
	monitor *Monitor
	folder  string
}

// newScene has packets between the pod and the other, each seen at both adapters.
func newScene(t *testing.T) *scene {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stack := &standin.Planted{
		List:   []standin.Component{{ID: 7, Name: "pod", MAC: pod}, {ID: 9, Name: "other", MAC: other}},
		Frames: []standin.Frame{frame(pod, other), frame(other, pod), frame(other, other)},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = standin.Serve(ctx, listener, standin.NewMonitor(stack)) }() // it ends with the test
	t.Setenv(standin.AddressVariable, listener.Addr().String())
	s := &scene{t: t, folder: filepath.Join(nodetest.Folder(t), "capture")}
	s.monitor = s.agent()
	return s
}

// agent is a process that has the folder.
func (s *scene) agent() *Monitor {
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	return New(program, s.folder)
}

// somebody runs a command of Packet Monitor, which must succeed.
func (s *scene) somebody(words ...string) string {
	s.t.Helper()
	text, err := s.monitor.run(s.t.Context(), words...)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

func (s *scene) start() (*Session, error) {
	return s.monitor.Start(s.t.Context(), Capture{Adapter: pod, Filters: []Filter{{}}, Bytes: 1})
}

func (s *scene) mustStart() *Session {
	s.t.Helper()
	session, err := s.start()
	if err != nil {
		s.t.Fatal(err)
	}
	return session
}

// nothingIsLeft demands that Packet Monitor is as it was at first, and that there are no files.
func (s *scene) nothingIsLeft() {
	s.t.Helper()
	if said := s.somebody("status"); strings.Contains(said, "Logger") {
		s.t.Errorf("a session is left: %s", said)
	}
	if said := s.somebody("filter", "list"); !strings.Contains(said, "None") {
		s.t.Errorf("filters are left: %s", said)
	}
	s.noFilesAreLeft()
}

func (s *scene) noFilesAreLeft() {
	s.t.Helper()
	for _, file := range []string{s.monitor.log(), s.monitor.packets()} {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			s.t.Errorf("%s is left: %v", file, err)
		}
	}
}

// TestACapture has the packets of the adapter once, and leaves nothing.
func TestACapture(t *testing.T) {
	s := newScene(t)
	session := s.mustStart()
	if said := s.somebody("status"); !strings.Contains(said, s.monitor.log()) || !strings.Contains(said, "16 MB") {
		t.Errorf("the session is %s", said)
	}
	if _, err := s.start(); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("a second capture: %v", err)
	}
	file, lost, err := session.Finish(t.Context())
	if err != nil || lost != 0 {
		t.Fatal(lost, err)
	}
	if said := s.somebody("etl2pcap", s.monitor.log(), "--out", filepath.Join(s.folder, "all.pcapng")); !strings.Contains(
		said, "Packets total:       2\n") {
		t.Errorf("the log of component 7 with the filter of the pod has %s", said)
	}
	if text, err := os.ReadFile(file); err != nil || len(text) < 2*74 {
		t.Errorf("the file has %d bytes, %v", len(text), err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	s.nothingIsLeft()
	if err := s.mustStart().Close(); err != nil {
		t.Errorf("a capture that is broken off: %v", err)
	}
	s.nothingIsLeft()
}

// TestSomebodyElse is neither disturbed nor ended, and the error says of what it is about.
func TestSomebodyElse(t *testing.T) {
	s := newScene(t)
	theirs := filepath.Join(nodetest.Folder(t), "theirs.etl")
	s.somebody("start", "--capture", "--file-name", theirs)
	if _, err := s.start(); err == nil || !strings.Contains(err.Error(), "theirs.etl") {
		t.Errorf("beside a session: %v", err)
	}
	if said := s.somebody("filter", "list"); !strings.Contains(said, "None") {
		t.Errorf("their capture has filters now: %s", said)
	}
	s.somebody("stop")
	s.somebody("filter", "add", "theirs", "-p", "53")
	if _, err := s.start(); err == nil || !strings.Contains(err.Error(), "pktmon filter remove") {
		t.Errorf("beside filters: %v", err)
	}
	if said := s.somebody("filter", "list"); !strings.Contains(said, "theirs") {
		t.Errorf("their filters are gone: %s", said)
	}
	s.somebody("filter", "remove")

	session := s.mustStart()
	s.somebody("stop")
	s.somebody("start", "--capture", "--file-name", theirs)
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if said := s.somebody("status"); !strings.Contains(said, theirs) {
		t.Errorf("a session that took the place of ours was ended: %s", said)
	}

	s.somebody("stop")
	session = s.mustStart()
	s.somebody("filter", "add", "theirs", "-p", "53")
	if err := session.Close(); err == nil || !strings.Contains(err.Error(), "pktmon filter remove") {
		t.Errorf("with filters of both: %v", err)
	}
	if said := s.somebody("status"); strings.Contains(said, "Logger") {
		t.Errorf("the session goes on: %s", said)
	}
	s.noFilesAreLeft()
	s.somebody("filter", "remove")
	if err := s.mustStart().Close(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	s.nothingIsLeft()
}

// TestAnAgentThatDies leaves a session, filters and a file. The next one ends them, and nothing else.
func TestAnAgentThatDies(t *testing.T) {
	s := newScene(t)
	if err := s.agent().Reclaim(t.Context()); err != nil {
		t.Errorf("without a capture ever: %v", err)
	}
	s.mustStart()
	s.monitor = s.agent()
	if err := s.monitor.Reclaim(t.Context()); err != nil {
		t.Error(err)
	}
	s.nothingIsLeft()

	theirs := filepath.Join(nodetest.Folder(t), "theirs.etl")
	s.somebody("start", "--capture", "--file-name", theirs)
	if err := s.agent().Reclaim(t.Context()); err != nil {
		t.Error(err)
	}
	if said := s.somebody("status"); !strings.Contains(said, theirs) {
		t.Errorf("their session is gone: %s", said)
	}
}

// TestWithoutPacketMonitor the error says so, and that is all that happens.
func TestWithoutPacketMonitor(t *testing.T) {
	folder := filepath.Join(nodetest.Folder(t), "capture")
	m := New(filepath.Join(folder, "pktmon.exe"), folder)
	_, err := m.Start(t.Context(), Capture{Adapter: pod, Filters: []Filter{{}}})
	if err == nil || !strings.Contains(err.Error(), "has no Packet Monitor") {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
}
