package ovntrace

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/weftnet/weft/ovn/bounded"
)

// Bounds of a run.
const (
	// lookups is how many times a packet is looked up in conntrack: more than any way through Weft's topology has.
	lookups = 16
	// maxOutput is how much a run may print, in bytes.
	maxOutput = 1 << 20
	// maxComplaint is how much of its errors is told, in bytes.
	maxComplaint = 1000
	// closing is how long a run that was told to end may keep its output open.
	closing = time.Second
)

// Program is ovn-trace, and the Southbound that it asks.
type Program struct {
	// Path is the program's, or its name, which is looked for in PATH.
	Path string
	// Southbound is the endpoint of a server of the Southbound, which need not be the leader of its cluster.
	Southbound string
	slots      chan struct{}
	scope      func(context.Context, Packet) (*scope, error) // with which a packet begins
}

// New makes a Program of which so many run at a time: each reads much of the Southbound into memory.
func New(path, southbound string, most int) *Program {
	return &Program{Path: path, Southbound: southbound, slots: make(chan struct{}, most),
		scope: func(ctx context.Context, packet Packet) (*scope, error) { return readScope(ctx, southbound, packet) }}
}

// Run follows a packet and gives the output. Of a load balancer's endpoints one is taken by chance, and the output does
// not say which. The option --lb-dst does not choose: flows that look up a known connection obey it too
// (execute_ct_lb in utilities/ovn-trace.c), so that a new one never comes to the load balancer. Flows that name
// variables are followed if these are among the given ones, of the chassis that the packet meets.
func (p *Program) Run(ctx context.Context, packet Packet, variables Variables) (string, error) {
	expression, err := packet.Expression()
	if err != nil {
		return "", err
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return "", fmt.Errorf("wait for other traces to end: %w", ctx.Err())
	}
	of, err := p.scope(ctx, packet)
	for err == nil {
		var text string
		if text, err = p.once(ctx, packet, expression, variables, of); err != nil {
			break
		}
		if of = of.widened(text); of == nil {
			return text, nil
		}
	}
	return "", err
}

// once is one run.
func (p *Program) once(ctx context.Context, packet Packet, expression string, variables Variables, of *scope) (
	string, error) {
	r, err := newRelay(ctx, p.Southbound, variables, of)
	if err != nil {
		return "", err
	}
	defer r.close()
	args := []string{"--db=" + r.endpoint(), "--no-leader-only", "--detailed", "-voff", "-vconsole:emer"}
	for range lookups {
		args = append(args, "--ct="+packet.conntrack())
	}
	return p.run(ctx, append(args, expression))
}

func (p *Program) run(ctx context.Context, args []string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, complaints := &bounded.Buffer{Most: maxOutput, Full: cancel}, &bounded.Buffer{Most: maxComplaint}
	cmd := exec.CommandContext(ctx, p.Path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = []string{"PATH=/usr/bin:/bin"}, out, complaints, closing
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%w: install the package ovn-common of the Southbound's OVN, or name the program by the key "+
			"ovn-trace", err)
	case out.Over():
		return "", fmt.Errorf("%s has printed more than %d bytes", p.Path, maxOutput)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s has not answered in time: %w", p.Path, ctx.Err())
	case err != nil:
		return "", fmt.Errorf("%s: %w: %s", p.Path, err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}
