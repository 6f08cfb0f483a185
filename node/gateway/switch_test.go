package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// A switch whose questions are answered keeps the connection, until it ends.
func TestHoldOpenFlow(t *testing.T) {
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	met := 0
	go func() { ended <- holdOpenFlow(t.Context(), ours, func() { met++ }) }()
	if err := theirs.SetDeadline(time.Now().Add(nodetest.Patience)); err != nil {
		t.Fatal(err)
	}
	read := func(n int) []byte {
		t.Helper()
		message := make([]byte, n)
		if _, err := io.ReadFull(theirs, message); err != nil {
			t.Fatal(err)
		}
		return message
	}
	if hello := read(8); !bytes.Equal(hello, []byte{1, 0, 0, 8, 0, 0, 0, 0}) {
		t.Fatalf("hello is %v", hello)
	}
	for _, message := range [][]byte{
		{6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x7e}, // a newer switch's hello
		{1, 5, 0, 9, 0, 0, 0, 2, 7},                          // nothing that wants an answer
		{1, 2, 0, 10, 0, 0, 0, 3, 'h', 'i'},                  // echo
	} {
		if _, err := theirs.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	if reply := read(10); !bytes.Equal(reply, []byte{1, 3, 0, 10, 0, 0, 0, 3, 'h', 'i'}) {
		t.Fatalf("the echo is %v", reply)
	}
	theirs.Close()
	if err := <-ended; err == nil || met != 1 {
		t.Errorf("it met a switch %d times, and ended with %v", met, err)
	}
}

func TestHoldOpenFlowEnds(t *testing.T) {
	for name, test := range map[string]struct {
		send []byte
		want string
	}{
		"no OpenFlow":   {[]byte("HTTP/1.1 400 Bad Request"), "closed by the switch"},
		"short message": {[]byte{1, 0, 0, 7, 0, 0, 0, 1}, "is not OpenFlow's"},
	} {
		ours, theirs := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- holdOpenFlow(t.Context(), ours, func() { t.Error("met a switch") }) }()
		go func() {
			_, _ = io.CopyN(io.Discard, theirs, 8)
			_, _ = theirs.Write(test.send)
			theirs.Close()
		}()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), test.want) &&
			!errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: ended with %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- holdOpenFlow(ctx, ours, nil) }()
	if _, err := io.CopyN(io.Discard, theirs, 8); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it ended without an error")
	}
}
