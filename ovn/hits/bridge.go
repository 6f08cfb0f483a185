package hits

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// count adds what a bridge has counted for the wanted flows.
func count(ctx context.Context, program, bridge string, wanted map[flow]*Count, seen map[*Count]bool) error {
	command := exec.CommandContext(ctx, program, "dump-flows", bridge)
	command.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		if _, missing := exec.LookPath(program); missing != nil {
			return fmt.Errorf("there is no program %s; install Open vSwitch's tools, or set ovs-ofctl to its path: %w", program, missing)
		}
		return fmt.Errorf("list the flows of bridge %s: %w: %s; run it as root on a node, or name the bridge's socket", bridge, err, bytes.TrimSpace(stderr.Bytes()))
	}
	for line := range strings.Lines(stdout.String()) {
		c, ok, err := parseFlow(line)
		if err != nil {
			return fmt.Errorf("read the flows of bridge %s: %w; set ovs-ofctl to the program of the Open vSwitch that has the bridge", bridge, err)
		}
		if r := wanted[c.flow]; ok && r != nil {
			r.Packets += c.packets
			r.Bytes += c.bytes
			seen[r] = true
		}
	}
	return nil
}

// counted is a flow of a bridge with its counters.
type counted struct {
	flow
	packets, bytes uint64
}

// defaultPriority is OpenFlow's, which ovs-ofctl leaves out.
const defaultPriority = 32768

// parseFlow reads a line of ovs-ofctl dump-flows up to the actions, of which OVN has more than any library
// knows. It is not ok where the line is none of a flow.
func parseFlow(line string) (c counted, ok bool, err error) {
	c.priority = defaultPriority
	head, _, _ := strings.Cut(line, "actions=")
	for field := range strings.FieldsFuncSeq(head, func(r rune) bool { return strings.ContainsRune(", \n", r) }) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "cookie":
			ok = true
			c.cookie, err = strconv.ParseUint(value, 0, 64)
		case "priority":
			c.priority, err = strconv.Atoi(value)
		case "n_packets":
			c.packets, err = strconv.ParseUint(value, 10, 64)
		case "n_bytes":
			c.bytes, err = strconv.ParseUint(value, 10, 64)
		}
		if err != nil {
			return c, false, fmt.Errorf("%s of flow %q: %w", key, strings.TrimSpace(head), err)
		}
	}
	return c, ok, nil
}
