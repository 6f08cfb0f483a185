package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// groupWatch hears of each change of a bridge's groups, in which load balancers have their endpoints. A
// switch of OpenFlow 1.4 sends it to whoever asks for it (requestforward), so that nobody has to
// poll thousands of groups. ovn-controller changes a group and the flow that leads to it in one bundle.
type groupWatch struct {
	conn  net.Conn
	mutex sync.Mutex
	want  []byte
	seen  chan time.Time
	err   error
}

const (
	openFlow14 = 5
	// Types of messages.
	openFlowHello, openFlowError, openFlowEchoRequest, openFlowEchoReply = 0, 1, 2, 3
	openFlowSetAsync, openFlowRequestForward                             = 28, 32
)

func (c *chassis) watchGroups(b testing.TB) *groupWatch {
	b.Helper()
	conn, err := net.Dial("unix", filepath.Join(c.dir, "br-int.mgmt"))
	if err != nil {
		b.Fatal(err)
	}
	w := &groupWatch{conn: conn}
	b.Cleanup(func() { conn.Close() })
	// Property 11: requests that are forwarded to a master or equal; bit 0: changes of groups.
	async := []byte{0, 11, 0, 8, 0, 0, 0, 1}
	if err := errors.Join(w.send(openFlowHello, 1, nil), w.send(openFlowSetAsync, 2, async)); err != nil {
		b.Fatalf("watch the groups of %s: %v", c.dir, err)
	}
	go w.read()
	return w
}

func (w *groupWatch) send(kind byte, id uint32, body []byte) error {
	message := []byte{openFlow14, kind}
	message = binary.BigEndian.AppendUint16(message, uint16(8+len(body)))
	message = binary.BigEndian.AppendUint32(message, id)
	_, err := w.conn.Write(append(message, body...))
	return err
}

func (w *groupWatch) read() {
	reader := bufio.NewReaderSize(w.conn, 1<<16)
	for {
		err := w.next(reader)
		if err == nil {
			continue
		}
		w.mutex.Lock()
		w.err = err
		if w.seen != nil {
			close(w.seen)
			w.seen = nil
		}
		w.mutex.Unlock()
		return
	}
}

func (w *groupWatch) next(reader io.Reader) error {
	var header [8]byte
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return err
	}
	body := make([]byte, max(8, binary.BigEndian.Uint16(header[2:]))-8)
	if _, err := io.ReadFull(reader, body); err != nil {
		return err
	}
	now := time.Now()
	switch header[1] {
	case openFlowError:
		return fmt.Errorf("the switch answers with error % x", body[:min(4, len(body))])
	case openFlowEchoRequest:
		return w.send(openFlowEchoReply, binary.BigEndian.Uint32(header[4:]), body)
	case openFlowRequestForward:
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if w.seen != nil && bytes.Contains(body, w.want) {
			w.seen <- now
			w.seen = nil
		}
	}
	return nil
}

// expect gives the time at which a group with an address among its endpoints has come.
func (w *groupWatch) expect(addr netip.Addr) <-chan time.Time {
	seen := make(chan time.Time, 1)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.want, w.seen = addr.AsSlice(), seen; w.err != nil {
		close(seen)
		w.seen = nil
	}
	return seen
}
