package pktmon

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// session is a capture. It sees each packet at each component that the packet passes.
type session struct {
	file    string
	size    int // of the log, in MiB
	keep    int // bytes of a packet; 0: all
	filters []filter

	cancel   context.CancelFunc
	watching []<-chan struct{}

	mu    sync.Mutex
	log   []record
	bytes int
}

// record is a packet in a log.
type record struct {
	Component int
	At        time.Time
	Length    int
	Data      []byte
}

// see notes a frame that a filter lets pass; without filters, each. A full log forgets the oldest.
func (s *session) see(component int, f Frame) {
	if len(s.filters) > 0 && !slices.ContainsFunc(s.filters, func(one filter) bool { return one.fits(f.Data) }) {
		return
	}
	data := f.Data
	if s.keep > 0 && len(data) > s.keep {
		data = data[:s.keep]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, record{component, f.At, len(f.Data), bytes.Clone(data)})
	for s.bytes += len(data); s.bytes > s.size<<20; s.log = s.log[1:] {
		s.bytes -= len(s.log[0].Data)
	}
}

// parameters are what `status` and `start` print of a session.
func (s *session) parameters() string {
	return fmt.Sprintf("\nLogger Parameters:\n    Logger name:        PktMon\n    Logging mode:       Circular\n"+
		"    Log file:           %s\n    Max file size:      %d MB\n    Memory used:        128 MB\n\nCollected Data:\n"+
		"    Packet counters, packet capture\n\nCapture Type:\n    All packets\n\n", s.file, s.size)
}

// end gives the log.
func (s *session) end() ([]byte, error) {
	s.cancel()
	for _, done := range s.watching {
		<-done
	}
	var log bytes.Buffer
	err := gob.NewEncoder(&log).Encode(s.log)
	return log.Bytes(), err
}

// pcapngOf converts a log: the packets of a component; 0 is of all.
func pcapngOf(log []byte, component int, droppedOnly bool) (file []byte, formatted, total int, err error) {
	var records []record
	if err := gob.NewDecoder(bytes.NewReader(log)).Decode(&records); err != nil {
		return nil, 0, 0, fmt.Errorf("the file is no log of the stand-in's: %w", err)
	}
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, layers.LinkTypeEthernet)
	if err != nil {
		return nil, 0, 0, err
	}
	slices.SortStableFunc(records, func(a, b record) int { return a.At.Compare(b.At) })
	for _, r := range records {
		if droppedOnly || component != 0 && r.Component != component {
			continue
		}
		formatted++
		info := gopacket.CaptureInfo{Timestamp: r.At, CaptureLength: len(r.Data), Length: r.Length}
		err = errors.Join(err, w.WritePacket(info, r.Data))
	}
	err = errors.Join(err, w.Flush())
	return out.Bytes(), formatted, len(records), err
}
