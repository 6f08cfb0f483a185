package hits

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"
)

// count adds what a bridge has counted for the wanted flows.
func count(ctx context.Context, program, bridge string, wanted map[flow]*Count, seen map[*Count]bool) error {
	client := ovs.New(ovs.Exec(func(_ string, args ...string) ([]byte, error) {
		command := exec.CommandContext(ctx, program, args...)
		command.WaitDelay = time.Second
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		return only(stdout.Bytes(), wanted), nil
	}))
	flows, err := client.OpenFlow.DumpFlows(bridge)
	if err != nil {
		if _, missing := exec.LookPath(program); missing != nil {
			return fmt.Errorf("there is no program %s; install Open vSwitch's tools, or set ovs-ofctl to its path: %w", program, missing)
		}
		return fmt.Errorf("list the flows of bridge %s: %w; run it as root on a node, or name the bridge's socket", bridge, err)
	}
	for _, f := range flows {
		if r := wanted[flow{f.Cookie, f.Priority}]; r != nil {
			r.Packets += f.Stats.PacketCount
			r.Bytes += f.Stats.ByteCount
			seen[r] = true
		}
	}
	return nil
}

// only are the lines of a dump that are of wanted flows: a node has many more, not all of which
// go-openvswitch can read.
func only(dump []byte, wanted map[flow]*Count) []byte {
	cookies := map[uint64]bool{}
	for f := range wanted {
		cookies[f.cookie] = true
	}
	var kept []byte
	for line := range bytes.Lines(dump) {
		_, rest, ok := bytes.Cut(line, []byte("cookie="))
		digits, _, _ := bytes.Cut(rest, []byte(","))
		cookie, err := strconv.ParseUint(string(digits), 0, 64)
		if ok && err == nil && !cookies[cookie] {
			continue
		}
		kept = append(kept, line...)
	}
	return kept
}
