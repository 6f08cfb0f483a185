package hits

import (
	"strings"
	"testing"
)

func TestFlowsOfABridge(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       counted
		ok         bool
		wrong      string
	}{
		{"an ACL's that is logged", " cookie=0x8b03d6c7, duration=2.1s, table=28, n_packets=3, n_bytes=222, idle_age=1, priority=2001,ip,reg15=0x2,metadata=0x1 " +
			"actions=controller(userdata=00.00.00.07.priority=1,meter_id=2),load:0x1->OXM_OF_PKT_REG4[49],resubmit(,29)\n", counted{flow{0x8b03d6c7, 2001}, 3, 222}, true, ""},
		{"one of the default priority", " cookie=0x0, duration=7s, table=0, n_packets=1, n_bytes=42, actions=NORMAL\n", counted{flow{0, 32768}, 1, 42}, true, ""},
		{"the reply's head", "NXST_FLOW reply (xid=0x4):\n", counted{flow: flow{0, 32768}}, false, ""},
		{"a counter that is none", " cookie=0x1, n_packets=many, n_bytes=42, actions=drop\n", counted{}, false, "n_packets of flow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok, err := parseFlow(c.line)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("the error is %v, want one about %s", err, c.wrong)
				}
				return
			}
			if err != nil || ok != c.ok || got != c.want {
				t.Errorf("%+v, %t, %v; want %+v, %t", got, ok, err, c.want, c.ok)
			}
		})
	}
}
