package extbridge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"
)

// Installer applies flows to a bridge by ovs-ofctl. It touches only flows with this package's cookies. It is
// not for concurrent use.
type Installer struct {
	// Program is ovs-ofctl's path, or its name in PATH.
	Program string
	// Keep has flows stay that are not wanted, while it is not known yet whether they are.
	Keep bool
	// Timeout bounds one run of the program; zero: ten seconds.
	Timeout time.Duration

	bridge string
	// installed are the cookies of the flows that the bridge has; nil: not known.
	installed map[uint64]struct{}
	// refused are flows that the bridge does not take, by their cookies.
	refused map[uint64]error
}

// Forget has the next Apply ask the bridge what it has, and what it takes, as after a restart of ovs-vswitchd.
func (i *Installer) Forget() { i.installed, i.refused = nil, nil }

// Apply makes these flows the bridge's, in one transaction that adds what is missing and removes what is no
// longer wanted, and returns how many flows that were. Nothing is run when nothing differs from what was
// applied before. Flows that the bridge does not take are left out, all others are in force, and the error is a
// [RefusedFlows]. The bridge is a name, or where ovs-vswitchd takes its OpenFlow connections:
// "unix:PATH/NAME.mgmt".
func (i *Installer) Apply(ctx context.Context, bridge string, want []*ovs.Flow) (changed int, err error) {
	if i.bridge != bridge {
		i.bridge, i.installed, i.refused = bridge, nil, nil
	}
	if i.installed == nil {
		if i.installed, err = i.list(ctx, bridge); err != nil {
			return 0, err
		}
	}
	var missing []*ovs.Flow
	var refused RefusedFlows
	wanted := map[uint64]struct{}{}
	for _, flow := range want {
		if problem := i.refused[flow.Cookie]; problem != nil {
			refused = append(refused, problem)
			continue
		}
		wanted[flow.Cookie] = struct{}{}
		if _, ok := i.installed[flow.Cookie]; !ok {
			missing = append(missing, flow)
		}
	}
	var surplus []uint64
	for _, cookie := range slices.Sorted(maps.Keys(i.installed)) {
		if _, ok := wanted[cookie]; ok {
			continue
		}
		if i.Keep {
			wanted[cookie] = struct{}{}
		} else {
			surplus = append(surplus, cookie)
		}
	}
	if len(missing)+len(surplus) == 0 {
		return 0, refused.error()
	}
	i.installed = nil // until it is known to have gone well
	if err := i.change(ctx, bridge, surplus, missing); err != nil {
		if i.findRefused(ctx, bridge, missing) {
			return i.Apply(ctx, bridge, want)
		}
		return 0, i.explain("change the flows of bridge "+bridge, err)
	}
	i.installed = wanted
	return len(missing) + len(surplus), refused.error()
}

// change removes and adds flows in one transaction.
func (i *Installer) change(ctx context.Context, bridge string, surplus []uint64, missing []*ovs.Flow) error {
	return i.client(ctx).OpenFlow.AddFlowBundle(bridge, func(tx *ovs.FlowTransaction) error {
		for _, cookie := range surplus { // first: a new flow may have the match of an old one
			tx.Delete(&ovs.MatchFlow{Cookie: cookie, Table: ovs.AnyTable})
		}
		tx.Add(missing...)
		return tx.Commit()
	})
}

// list asks the bridge for the cookies of its flows that are this package's.
func (i *Installer) list(ctx context.Context, bridge string) (map[uint64]struct{}, error) {
	flows, err := i.client(ctx).OpenFlow.DumpFlowsWithFlowArgs(bridge, &ovs.MatchFlow{Cookie: CookieMark,
		CookieMask: CookieMask, Table: ovs.AnyTable})
	if err != nil {
		return nil, i.explain("list the flows of bridge "+bridge, err)
	}
	cookies := map[uint64]struct{}{}
	for _, flow := range flows {
		cookies[flow.Cookie] = struct{}{}
	}
	return cookies, nil
}

func (i *Installer) explain(doing string, err error) error {
	if _, missing := exec.LookPath(i.Program); missing != nil {
		return fmt.Errorf("%s: there is no program %s; install Open vSwitch's tools, or set ovs-ofctl to its path: %w", doing,
			i.Program, missing)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// client runs the program with the deadline of ctx.
func (i *Installer) client(ctx context.Context) *ovs.Client {
	limit := i.Timeout
	if limit == 0 {
		limit = 10 * time.Second
	}
	run := func(stdin io.Reader, args []string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		command := exec.CommandContext(ctx, i.Program, args...)
		command.WaitDelay = time.Second
		command.Stdin = stdin
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		err := command.Run()
		if ctx.Err() != nil {
			err = fmt.Errorf("%s has not ended within %v", i.Program, limit)
		}
		if err != nil {
			return stderr.Bytes(), fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		return stdout.Bytes(), nil
	}
	return ovs.New(
		ovs.Exec(func(_ string, args ...string) ([]byte, error) { return run(nil, args) }),
		ovs.Pipe(func(stdin io.Reader, _ string, args ...string) ([]byte, error) { return run(stdin, args) }),
	)
}
