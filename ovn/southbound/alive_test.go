package southbound

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// says has each object that somebody sends.
func says(from io.Reader, each func(text string)) {
	go func() {
		m := &messages{from: from}
		for {
			text, err := m.next()
			if err != nil {
				return
			}
			each(string(text))
		}
	}()
}

// TestANodeThatWaitsHearsFromTheGuard: as long as the server is busy, and not for long without a server. The server
// gets nothing of it.
func TestANodeThatWaitsHearsFromTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{metrics: newMetrics()}
		g.metrics.lost.Store(nil)
		client, server, _ := pipes(t, g)
		requests := heard(t, server)
		var mu sync.Mutex
		signs, others := 0, []string{}
		said := make(chan string, 1000) // one goroutine writes for the client
		defer close(said)
		go func() {
			for text := range said {
				fmt.Fprint(client, text)
			}
		}()
		says(client, func(text string) {
			mu.Lock()
			defer mu.Unlock()
			if text != lifeRequest {
				others = append(others, text)
				return
			}
			signs++
			said <- `{"id":"weft","result":[],"error":null}`
		})
		told := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return signs
		}
		pass := func(d time.Duration) (heard int) {
			before := told()
			time.Sleep(d)
			return told() - before
		}
		if n := pass(time.Minute); n > 0 {
			t.Errorf("a node that waits for nothing hears %d times from the guard in a minute", n)
		}
		said <- `{"id":7,"method":"echo","params":[]}`
		if n, want := pass(time.Minute), int(time.Minute/lifeInterval); n != want {
			t.Errorf("a node that waits hears %d times from the guard in a minute, want %d", n, want)
		}
		lost := time.Now()
		g.metrics.lost.Store(&lost)
		if n := pass(restart - time.Second); n == 0 {
			t.Error("a node hears nothing as soon as the server is away")
		}
		if pass(3 * time.Second); pass(time.Minute) > 0 {
			t.Error("a node still hears from a guard that has had no server for long")
		}
		fmt.Fprint(server, `{"id":7,"result":[],"error":null}`)
		g.metrics.lost.Store(nil)
		if n := pass(time.Minute); n > 0 {
			t.Errorf("a node that has its answer hears %d times from the guard in a minute", n)
		}
		mu.Lock()
		if len(others) != 1 || others[0] != `{"id":7,"result":[],"error":null}` {
			t.Errorf("the node hears %q", others)
		}
		mu.Unlock()
		if n := len(requests); n != 1 {
			t.Errorf("the server gets %d messages", n)
		}
		// The next request is one like the first.
		said <- `{"id":8,"method":"echo","params":[]}`
		if n := pass(10 * lifeInterval); n == 0 {
			t.Error("a node that waits again hears nothing")
		}
	})
}

// TestTheGuardInterruptsNoAnswer: what the server says comes in one piece, however long it takes.
func TestTheGuardInterruptsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, _ := pipes(t, &Guard{metrics: newMetrics()})
		requests := heard(t, server)
		texts := make(chan string, 10)
		says(client, func(text string) { texts <- text })
		go fmt.Fprint(client, `{"id":7,"method":"get_schema","params":["OVN_Southbound"]}`)
		<-requests
		for _, part := range []string{`{"id":7,"res`, `ult":{"a":"`, `b"},"error":`, `null}`} {
			fmt.Fprint(server, part)
			time.Sleep(10 * lifeInterval)
		}
		synctest.Wait()
		if text := <-texts; text != `{"id":7,"result":{"a":"b"},"error":null}` || len(texts) > 0 {
			t.Errorf("the node hears %q, and %d more", text, len(texts))
		}
	})
}

// TestANodeThatDoesNotReadIsLeft: also where only the guard has something to say.
func TestANodeThatDoesNotReadIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, ended := pipes(t, &Guard{metrics: newMetrics()})
		requests := heard(t, server)
		fmt.Fprint(client, `{"id":7,"method":"echo","params":[]}`)
		<-requests
		began := time.Now()
		err := <-ended
		if took := time.Since(began); err == nil || took > stall+time.Second {
			t.Errorf("it is left after %s: %v", took, err)
		}
	})
}
