package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// peer is the server's side of a session's connection.
type peer struct {
	net.Conn
	requests *json.Decoder
}

// live runs a session against a story, in which each connection comes from next.
func live(t *testing.T, story func(t *testing.T, c *crowd, next func() *peer)) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan net.Conn)
		c := &crowd{number: 1}
		c.expect(expectation{})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		s := &session{crowd: c, tables: `{"SB_Global":{}}`, dial: func(ctx context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			select {
			case conns <- far:
				return near, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		go func() { s.run(ctx); close(ended) }()
		story(t, c, func() *peer {
			conn := <-conns
			t.Cleanup(func() { conn.Close() })
			return &peer{conn, json.NewDecoder(conn)}
		})
		end()
		<-ended
	})
}

// gets fails unless the next request has a text.
func (p *peer) gets(t *testing.T, text string) {
	t.Helper()
	var request json.RawMessage
	if err := p.requests.Decode(&request); err != nil || !strings.Contains(string(request), text) {
		t.Fatalf("got %s (%v), want %s", request, err, text)
	}
}

func (p *peer) says(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		t.Fatal(err)
	}
}

const rowsAnswer = `{"id":3,"error":null,"result":[false,"%s",{"SB_Global":{"x":{"initial":{"name":"}]\"{"}}}}]}`

func id(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }

// begins takes the session to its request for rows.
func (p *peer) begins(t *testing.T, since string) {
	t.Helper()
	p.gets(t, "get_schema")
	p.says(t, `{"id":1,"result":{},"error":null}`)
	p.gets(t, `"_Server"`)
	p.says(t, `{"id":2,"result":{"Database":{}},"error":null}`)
	p.gets(t, `{"SB_Global":{}},"`+since+`"]`)
	p.gets(t, "set_db_change_aware")
}

func TestASilentServerIsLeft(t *testing.T) {
	live(t, func(t *testing.T, c *crowd, next func() *peer) {
		p := next()
		p.begins(t, id(0))
		p.says(t, fmt.Sprintf(rowsAnswer, id(1)))
		p.says(t, `{"id":4,"result":{},"error":null}`)
		<-c.all
		quiet := time.Now()
		for range 3 {
			p.gets(t, `"echo"`)
			if took := time.Since(quiet).Truncate(time.Second); took != probeInterval {
				t.Errorf("an echo request after %v", took)
			}
			time.Sleep(time.Second)
			p.says(t, `{"id":"echo","result":[],"error":null}`)
			quiet = time.Now()
		}
		p.says(t, `{"id":"echo","method":"echo","params":[]}`)
		p.gets(t, `"result":[]`)
		c.expect(expectation{text: `"nb_cfg":7`})
		p.says(t, `{"id":null,"method":"update3","params":[["monid","OVN_Southbound"],"`+id(2)+`",{"a":{"nb_`)
		p.says(t, `cfg":7}}]}`)
		<-c.all
		p.says(t, `{"id":null,"method":"update3","params":[["monid","_Server"],"`+id(3)+`",{}]}`)
		quiet = time.Now()
		p.gets(t, `"echo"`)
		if _, err := p.Read(make([]byte, 1)); err == nil {
			t.Error("the session goes on")
		}
		if took := time.Since(quiet).Truncate(time.Second); took != 2*probeInterval {
			t.Errorf("it ended its connection after %v", took)
		}
		p = next()
		if took := time.Since(quiet).Truncate(time.Second); took != 2*probeInterval+leastBackoff {
			t.Errorf("it came again after %v", took)
		}
		p.begins(t, id(2))
		f := c.fate()
		if f.lost != 1 || f.late+len(f.failed) != 0 || f.everything != 1 {
			t.Errorf("fates %+v", f)
		}
		if len(f.echoes) != 3 || f.echoes[0] != time.Second {
			t.Errorf("echoes took %v, want three times a second", f.echoes)
		}
	})
}

// TestHalfAnAnswerIsNone: the session then has nothing of what it was told. It waits longer, since its connections are
// short.
func TestHalfAnAnswerIsNone(t *testing.T) {
	live(t, func(t *testing.T, c *crowd, next func() *peer) {
		for _, wait := range []time.Duration{0, 1, 2, 4, 8, 8} {
			before := time.Now()
			p := next()
			if took := time.Since(before); took != wait*time.Second {
				t.Errorf("it came after %v, want %d s", took, wait)
			}
			p.begins(t, id(0))
			text := fmt.Sprintf(rowsAnswer, id(1))
			p.says(t, text[:len(text)-1])
			p.Close()
		}
		synctest.Wait()
		if c.found != 0 {
			t.Error("it has half of an answer")
		}
	})
}

func TestAConnectionThatDoesNotBegin(t *testing.T) {
	live(t, func(t *testing.T, c *crowd, _ func() *peer) {
		time.Sleep(leastBackoff + leastBackoff + leastBackoff + time.Millisecond)
		if f := c.fate(); f.late != 2 { // from 0 to 1 s, and from 2 to 3 s
			t.Errorf("fates %+v, want two that did not begin", f)
		}
	})
}

func TestWhatIsForgottenIsReadAgain(t *testing.T) {
	live(t, func(t *testing.T, c *crowd, next func() *peer) {
		p := next()
		p.begins(t, id(0))
		p.says(t, fmt.Sprintf(rowsAnswer, id(1)))
		<-c.all
		c.expect(expectation{forget: true})
		p.Close()
		p = next()
		p.begins(t, id(0))
		p.says(t, fmt.Sprintf(rowsAnswer, id(2)))
		<-c.all
		p.Close()
		next().begins(t, id(2))
	})
}
