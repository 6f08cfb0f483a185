package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodeconfig"
)

// Answers of ovs-ofctl 3.5.
const (
	someFlows = `NXST_FLOW reply (xid=0x4):
 cookie=0x2e86b8a9, duration=7.1s, table=0, n_packets=12, n_bytes=904, idle_age=1, priority=100,in_port=1 actions=load:0x1->NXM_NX_REG13[0..15],load:0x2->OXM_OF_METADATA[],load:0x1->NXM_NX_REG14[],resubmit(,8)
 cookie=0x77a5f1c2, duration=7.1s, table=0, n_packets=0, n_bytes=0, idle_age=7, priority=100,in_port=5 actions=load:0x3->NXM_NX_REG13[0..15],load:0x2->OXM_OF_METADATA[],load:0x4->NXM_NX_REG14[],resubmit(,8)
`
	noFlows   = "NXST_FLOW reply (xid=0x4):\n"
	portStats = `OFPST_PORT reply (xid=0x2): 1 ports
  port  5: rx pkts=3, bytes=250, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=2, bytes=180, drop=0, errs=0, coll=0
`
)

func TestInspectorNamesTheMissingStep(t *testing.T) {
	for name, test := range map[string]struct {
		port  int
		flows string
		err   error
		says  []string
	}{
		"never programmed": {5, noFlows, nil, []string{"br-int has no flows", "ovn-remote"}},
		"not claimed":      {7, someFlows, nil, []string{"none for OpenFlow port 7", "not claimed", "Port_Binding"}},
		"claimed": {5, someFlows, nil,
			[]string{"1 flows for OpenFlow port 5", "3 packets from the pod, 2 to it"}},
		"no ovs-ofctl": {5, "", &exec.Error{Name: "ovs-ofctl", Err: exec.ErrNotFound},
			[]string{"no program /opt/bin/ovs-ofctl; ", "set ovs-ofctl to its path"}},
		"no such path": {5, "", &fs.PathError{Op: "fork/exec", Path: "/opt/bin/ovs-ofctl", Err: fs.ErrNotExist},
			[]string{"no program /opt/bin/ovs-ofctl; "}},
		"vswitchd hangs": {5, "", context.DeadlineExceeded, []string{"did not answer"}},
		"vswitchd is away": {5, "ovs-ofctl: /run/br-int.mgmt: failed to open socket (No such file)",
			errors.New("exit status 1"), []string{"failed to open socket"}},
		"an answer of tomorrow": {5, "NXST_FLOW reply (xid=0x4):\n what=ever", nil, []string{"could not be looked at"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := nodeconfig.Default()
			config.OVSOpenFlow, config.OVSOfctl = "tcp:127.0.0.1:16653", "/opt/bin/ovs-ofctl"
			i := NewInspector(config)
			i.run = func(_ context.Context, program string, args ...string) ([]byte, error) {
				switch asked := program + " " + strings.Join(args, " "); asked {
				case "/opt/bin/ovs-ofctl dump-flows tcp:127.0.0.1:16653 table=0":
					return []byte(test.flows), test.err
				case "/opt/bin/ovs-ofctl dump-ports tcp:127.0.0.1:16653 5":
					return []byte(portStats), nil
				default:
					return nil, fmt.Errorf("unexpected %s", asked)
				}
			}
			seen := i.Look(t.Context(), test.port)
			for _, want := range test.says {
				if !strings.Contains(seen, want) {
					t.Errorf("%q does not say %q", seen, want)
				}
			}
		})
	}
}

func TestInspectorLooksOnceForManyFailures(t *testing.T) {
	i := NewInspector(nodeconfig.Default())
	looks, within := 0, make(chan struct{})
	proceed := make(chan struct{})
	i.run = func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a look without a deadline")
		}
		looks++
		close(within)
		<-proceed
		return []byte(noFlows), nil
	}
	first := make(chan string, 1)
	go func() { first <- i.Look(t.Context(), 5) }()
	<-within
	if seen := i.Look(t.Context(), 6); seen != "" {
		t.Errorf("a second look beside the first: %q", seen)
	}
	close(proceed)
	if seen := <-first; seen == "" {
		t.Error("the first look saw nothing")
	}
	if seen := i.Look(t.Context(), 7); seen != "" || looks != 1 {
		t.Errorf("%d looks, the last of them right after another: %q", looks, seen)
	}
	within = make(chan struct{})
	i.last = i.last.Add(-time.Hour)
	if seen := i.Look(t.Context(), 7); seen == "" || looks != 2 {
		t.Errorf("%d looks an hour later: %q", looks, seen)
	}
}
