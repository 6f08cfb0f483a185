//go:build linux

package chassis

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/node/tunnel"
)

func TestStateOfANode(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*status)
		want state
		says string
	}{
		{"at first", func(*status) {}, starting, "does not answer"},
		{"all is well", func(s *status) { s.opened(tunnel.OVSDB); s.opened(tunnel.OpenFlow); s.southbound("connected", nil) },
			connected, ""},
		{"no bridge", func(s *status) {
			s.opened(tunnel.OVSDB)
			s.southbound("connected", nil)
			s.failed(tunnel.OpenFlow, &tunnel.Error{Reason: tunnel.TargetDown, ByPeer: true, Text: "no pipe"})
		}, unreachable, "target-down: refused by the peer: no pipe"},
		{"its last stream is gone", func(s *status) {
			s.opened(tunnel.OVSDB)
			s.opened(tunnel.OpenFlow)
			s.southbound("connected", nil)
			s.closed(tunnel.OpenFlow)
		}, starting, "not connected to the node's Open vSwitch"},
		{"no Southbound", func(s *status) { s.opened(tunnel.OVSDB); s.southbound("not connected", nil) }, noSouthbound,
			"ovn-remote"},
		{"deaf", func(s *status) {
			s.opened(tunnel.OVSDB)
			s.opened(tunnel.OpenFlow)
			s.southbound("connected", nil)
			s.southbound("", errors.New("timeout"))
		}, starting, "does not answer"},
		{"it has died", func(s *status) {
			s.southbound("connected", nil)
			s.rest(errors.New("killed"), time.Now())
		}, backoff, "killed"},
		{"reached again", func(s *status) {
			s.failed(tunnel.OVSDB, errors.New("no route"))
			s.opened(tunnel.OVSDB)
			s.opened(tunnel.OpenFlow)
			s.southbound("connected", nil)
		}, connected, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s status
			s.begin("192.0.2.1:16642")
			s.run()
			c.do(&s)
			if now, says := s.state(); now != c.want || !strings.Contains(says, c.says) {
				t.Errorf("%s %q, want %s %q", now, says, c.want, c.says)
			}
		})
	}
}

func TestAProblemIsNewsOnceAndAnEventAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s status
		s.begin("192.0.2.1:16642")
		refused := &tunnel.Error{Reason: tunnel.Expired, Text: "on Monday"}
		for i := range 3 {
			for _, target := range []tunnel.Target{tunnel.OVSDB, tunnel.OpenFlow} {
				if _, news := s.failed(target, refused); news != (i == 0 && target == tunnel.OVSDB) {
					t.Errorf("try %d of %s: news %t", i, target, news)
				}
			}
		}
		complain := func(want bool) {
			t.Helper()
			if reason, message := s.complaint(time.Now()); (reason != nil) != want || want && !strings.Contains(message,
				"on Monday") {
				t.Errorf("after %v: %v %q", time.Now(), reason, message)
			}
		}
		complain(false)
		time.Sleep(complaintAfter)
		complain(true)
		complain(false)
		time.Sleep(complaintEvery)
		complain(true)
		if s.opened(tunnel.OVSDB) {
			t.Error("it is over while the bridge is not reached")
		}
		if !s.opened(tunnel.OpenFlow) || s.opened(tunnel.OpenFlow) {
			t.Error("its end is not told once")
		}
		if s.failed(tunnel.OVSDB, refused); s.outOfReach(time.Now()) != 0 {
			t.Error("out of reach with a stream")
		}
		s.closed(tunnel.OVSDB)
		time.Sleep(time.Minute)
		if d := s.outOfReach(time.Now()); d != time.Minute {
			t.Errorf("out of reach for %v", d)
		}
		s.failed(tunnel.OVSDB, &tunnel.Error{Reason: tunnel.TargetDown})
		if s.outOfReach(time.Now()) != 0 {
			t.Error("an agent that answers is out of reach")
		}
	})
}

func TestLinesOfOVNsLog(t *testing.T) {
	for line, want := range map[string]struct {
		level           slog.Level
		module, message string
	}{
		"INFO|main|connected":          {slog.LevelInfo, "main", "connected"},
		"WARN|reconnect|a|b":           {slog.LevelWarn, "reconnect", "a|b"},
		"ERR|ofctrl|bad":               {slog.LevelError, "ofctrl", "bad"},
		"EMER|util|assertion":          {slog.LevelError, "util", "assertion"},
		"cannot open shared object":    {slog.LevelWarn, "", "cannot open shared object"},
		"NOISE|x|y":                    {slog.LevelWarn, "", "NOISE|x|y"},
		"INFO|only a module's nothing": {slog.LevelWarn, "", "INFO|only a module's nothing"},
	} {
		if level, module, message := parseLine(line); level != want.level || module != want.module ||
			message != want.message {
			t.Errorf("%q: %v %q %q", line, level, module, message)
		}
	}
}

func TestWhatADatabaseHasIsToldOnceAndNotAsOftenAsItLikes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s status
		s.begin("192.0.2.1:16642")
		for _, c := range []struct {
			text string
			wait time.Duration
			want bool
		}{
			{"a", 0, true}, {"a", time.Minute, false}, {"b", 0, true}, {"c", time.Second, false}, {"d", otherPause, true},
			{"d", complaintEvery, true},
		} {
			time.Sleep(c.wait)
			if told := s.distrust(c.text); told != c.want {
				t.Errorf("%q after %v: told %t", c.text, c.wait, told)
			}
		}
		if now, says := s.state(); now != unreachable || !strings.Contains(says, "bad-database: d") {
			t.Errorf("%s %q", now, says)
		}
		if s.trust(); s.refused != "" {
			t.Error("it is never trusted again")
		}
	})
}

func TestWhatRefusesMemory(t *testing.T) {
	for line, want := range map[string]string{
		"ovn-controller: virtual memory exhausted": "it needed more memory than it may have (3 MiB); if the " +
			"node is sound, raise the key ovn-controller-memory of this host",
		"ovn-controller(ovn_pinctrl0): pthread_create failed: Resource temporarily unavailable": "it was refused a thread: " +
			"it needed more memory than it may have (3 MiB), or all chassis of this host have too many threads (TasksMax of " +
			"the host's unit); if the node is sound, raise the key ovn-controller-memory of this host",
		"ovn-controller: pthread_create failed: Invalid argument":  "<nil>",
		"ovn-controller: could not open database: not a directory": "<nil>",
	} {
		if got := fmt.Sprint(refusal(line, 3<<20)); got != want {
			t.Errorf("%q: %s\nwant %s", line, got, want)
		}
	}
}
