package southbound

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestMessagesAreOfOneKind: what the server would take for another kind of message than the guard ends the connection.
func TestMessagesAreOfOneKind(t *testing.T) {
	for _, c := range []struct {
		message, method string
		asks, refused   bool
	}{
		{`{"id":0,"method":"echo","params":[]}`, "echo", true, false},
		{`{"id":"","method":"echo","params":[]}`, "echo", true, false},
		{`{"id":false,"method":"echo","params":[]}`, "echo", true, false},
		{`{"id":null,"method":"cancel","params":[0]}`, "cancel", false, false},
		{`{"id":0,"method":"cancel","params":[0]}`, "cancel", true, false},
		{`{"id":"echo","result":[],"error":null}`, "", false, false},
		{`{"id":"echo","result":null,"error":"none"}`, "", false, false},
		{`{"id":0,"method":"","params":[]}`, "", false, true},
		{`{"id":0,"method":null,"params":[]}`, "", false, true},
		{`{"id":0,"method":7,"params":[]}`, "", false, true},
		{`{"id":null,"method":"monitor_cancel","params":[0]}`, "", false, true},
		{`{"method":"echo","params":[]}`, "", false, true},
		{`{"id":0,"params":[]}`, "", false, true},
		{`{"id":null,"result":[],"error":null}`, "", false, true},
		{`{}`, "", false, true},
	} {
		var message object
		if err := json.Unmarshal([]byte(c.message), &message); err != nil {
			t.Fatal(err)
		}
		method, asks, err := message.kind()
		if method != c.method || asks != c.asks || (err != nil) != c.refused {
			t.Errorf("%s is %q, asks %t, %v; want %q, %t, refused %t", c.message, method, asks, err, c.method, c.asks, c.refused)
		}
	}
}

// TestNoAnswerIsTakenForAnother: a message that the server answers and that the guard does not wait for would have the
// node's next request pass unpaced, and beside others of the node.
func TestNoAnswerIsTakenForAnother(t *testing.T) {
	s := newSouthbound(t)
	for _, odd := range []string{
		`{"id":0,"method":"","params":[]}`, `{"id":0,"method":null,"params":[]}`,
		`{"id":null,"method":"monitor_cancel","params":[0]}`, `{"id":0,"params":[]}`,
	} {
		conn := s.asNode()
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, odd)
		if answer, err := ask(conn, "echo", `[]`); err == nil {
			t.Errorf("after %s the node is answered %s", odd, answer)
		}
	}
}

// TestMonitorsThatStayAreCounted: of a monitor that the server keeps the guard knows, whatever the node has said to end
// it.
func TestMonitorsThatStayAreCounted(t *testing.T) {
	s := newSouthbound(t)
	monitor := func(n int) string {
		return fmt.Sprintf(`["OVN_Southbound",%d,{"Port_Binding":[{"columns":["mac"],"where":[false]}]}]`, n)
	}
	for _, params := range []string{`[%d,0]`, `[]`, `[[%d]]`} {
		conn := s.asNode()
		held := 0
		for ; held <= maxMonitors; held++ {
			s.forgive()
			answer, err := ask(conn, "monitor_cond", monitor(held))
			if err != nil || !strings.Contains(answer, `"error":null`) {
				break
			}
			if strings.Contains(params, "%d") {
				_, err = ask(conn, "monitor_cancel", fmt.Sprintf(params, held))
			} else {
				_, err = ask(conn, "monitor_cancel", params)
			}
			if err != nil {
				break
			}
		}
		if held > maxMonitors {
			t.Errorf("%d monitors are held, of which each was ended with the params %s, and a node may have %d", held, params,
				maxMonitors)
		}
		conn.Close()
	}
}
