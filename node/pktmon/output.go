package pktmon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// state is what `pktmon status` says.
type state struct {
	running bool
	ours    bool   // it writes our log
	log     string // the line that names the log, or the first one
}

// readState reads `pktmon status`. A line alone says that there is no session. Of a session it says what is collected,
// and into which file.
func readState(text, log string) (s state) {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) < 2 {
		return s
	}
	s.running, s.log = true, lines[0]
	for _, line := range lines {
		if strings.Contains(strings.ToLower(line), ".etl") {
			s.log = line
			s.ours = strings.Contains(strings.ToLower(line), strings.ToLower(log))
		}
	}
	return s
}

// filters are counted by whose they are.
type filters struct{ ours, others int }

// filterRow is a row of the table of `pktmon filter list`: a number, and the filter's name.
var filterRow = regexp.MustCompile(`(?m)^\s*\d+\s+(\S+)`)

func readFilters(text string) (f filters) {
	for _, row := range filterRow.FindAllStringSubmatch(text, -1) {
		if row[1] == filterName {
			f.ours++
		} else {
			f.others++
		}
	}
	return f
}

// lostCount is the number behind the log's name in what `pktmon stop` says, if there is one.
var lostCount = regexp.MustCompile(`(?i)\.etl\s*\([^)\d]*(\d+)`)

func eventsLost(said string) uint64 {
	found := lostCount.FindStringSubmatch(said)
	if found == nil {
		return 0
	}
	lost, err := strconv.ParseUint(found[1], 10, 64)
	if err != nil {
		return 0 // more than there can be
	}
	return lost
}

// component is a driver of the network's stack at which Packet Monitor sees packets.
type component struct {
	ID         int `json:"Id"`
	Properties []struct{ Value any }
}

// componentOf finds the component of an adapter in `pktmon list --json`: the first that has the adapter's address among
// its properties, whatever their names. Adapters come before the drivers above them. 0 is none.
func componentOf(text string, adapter net.HardwareAddr) (int, error) {
	var groups []struct{ Components []component }
	if err := json.Unmarshal([]byte(text), &groups); err != nil {
		return 0, fmt.Errorf("read `pktmon list --json`: %w", err)
	}
	for _, g := range groups {
		for _, c := range g.Components {
			if c.has(adapter) {
				return c.ID, nil
			}
		}
	}
	return 0, nil
}

func (c component) has(adapter net.HardwareAddr) bool {
	for _, p := range c.Properties {
		if text, isText := p.Value.(string); isText {
			if address, err := net.ParseMAC(text); err == nil && bytes.Equal(address, adapter) {
				return true
			}
		}
	}
	return false
}
