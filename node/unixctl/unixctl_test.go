package unixctl

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// daemon answers the one request that comes, and shows it.
func daemon(t *testing.T, answer string) (net.Conn, chan string) {
	t.Helper()
	ours, theirs := net.Pipe()
	asked := make(chan string, 1)
	go func() {
		defer theirs.Close()
		var request json.RawMessage
		if json.NewDecoder(theirs).Decode(&request) == nil {
			asked <- string(request)
			_, _ = io.WriteString(theirs, answer) // the other side may have had enough
		}
	}()
	return ours, asked
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct{ answer, want, problem string }{
		"an answer": {answer: `{"id":0,"result":"connected\n","error":null}`, want: "connected\n"},
		"a refusal": {answer: `{"id":0,"result":null,"error":"\"x\" is not a valid command"}`,
			problem: "not a valid command"},
		"no JSON": {answer: "hello", problem: "status: invalid character"},
		"the end": {answer: "", problem: "status: EOF"},
		"more than is read": {answer: `{"result":"` + strings.Repeat("x", maxAnswer) + `"}`,
			problem: "status: the answer has more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, asked := daemon(t, c.answer)
			got, err := Run(t.Context(), conn, "status", "--now")
			if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q, %v", got, err)
			}
			if request := <-asked; request != `{"id":0,"method":"status","params":["--now"]}` {
				t.Errorf("asked %s", request)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // it reads and never answers
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, ours, "status"); err == nil {
		t.Error("a daemon that says nothing has answered")
	}
}

// TestCallByTCP: what passes connections on to a socket is as good as the socket.
func TestCallByTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return // the test has ended
		}
		defer conn.Close()
		var request json.RawMessage
		if json.NewDecoder(conn).Decode(&request) == nil {
			_, _ = io.WriteString(conn, `{"id":0,"result":"3.5.0","error":null}`) // the caller says so
		}
	}()
	if got, err := Call(t.Context(), "tcp:"+listener.Addr().String(), "version"); got != "3.5.0" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
