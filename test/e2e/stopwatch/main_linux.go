// Command stopwatch times inside a machine of the lab what must not be timed from outside, where the
// way into the machine would count.
//
//	stopwatch calls COMMAND...      starts the command as often as its standard input says
//	stopwatch first-ping HNS        has a Windows node's pods started, through HNS' control socket,
//	                                and pings until they answer
//
// What is to be done comes as JSON, and so do the times that it took, in nanoseconds.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/test/lab/hcs"
)

// patience with one pod; what takes longer is no matter for a stopwatch.
const patience = 30 * time.Second

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stopwatch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 1 && args[0] == "calls":
		return answer(func(groups [][]call) ([][]time.Duration, error) { return timeCalls(ctx, args[1:], groups) })
	case len(args) == 2 && args[0] == "first-ping":
		return answer(func(pods []pod) ([]firstPing, error) { return timeStarts(ctx, hcs.HNS{Socket: args[1]}, pods) })
	}
	return errors.New("usage: stopwatch calls COMMAND... | stopwatch first-ping HNS-CONTROL-SOCKET")
}

func answer[Q, A any](do func(Q) (A, error)) error {
	var question Q
	if err := json.NewDecoder(os.Stdin).Decode(&question); err != nil {
		return fmt.Errorf("read what is to be done: %w", err)
	}
	times, err := do(question)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}

// call is one start of the command: what it gets beside this process' environment, and its input.
type call struct {
	Env   []string
	Stdin string
}

// timeCalls makes one group of calls after the other, and those of a group at the same time.
func timeCalls(ctx context.Context, command []string, groups [][]call) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(groups))
	for g, group := range groups {
		took[g] = make([]time.Duration, len(group))
		errs := make([]error, len(group))
		var calls sync.WaitGroup
		for i, c := range group {
			calls.Go(func() { took[g][i], errs[i] = c.time(ctx, command) })
		}
		calls.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return took, nil
}

func (c call) time(ctx context.Context, command []string) (time.Duration, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), c.Env...), strings.NewReader(c.Stdin), &out, &out
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s with %q: %w: %s", strings.Join(command, " "), c.Env, err, out.String())
	}
	return took, nil
}

// pod is one that has a network but no container yet.
type pod struct {
	Namespace     string // the GUID that HNS knows it by
	Netns         string // path
	Address, Peer string // its own IPv4 address; one that is to answer it
}

// firstPing are the times since a pod's first container was told to start.
type firstPing struct {
	Started  time.Duration // its vNIC is made, as far as it is HNS'
	FromHost time.Duration // it has answered its node
	FromPod  time.Duration // its peer has answered it
}

func timeStarts(ctx context.Context, hns hcs.HNS, pods []pod) ([]firstPing, error) {
	took := make([]firstPing, len(pods))
	for i, p := range pods {
		var err error
		if took[i], err = p.timeStart(ctx, hns); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// timeStart pings from before the start on: the answer to the first ping that can have one counts.
func (p pod) timeStart(ctx context.Context, hns hcs.HNS) (firstPing, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var outside, inside time.Time
	var errs [2]error
	var pings sync.WaitGroup
	begin := time.Now()
	pings.Go(func() { outside, errs[0] = ping(ctx, "", p.Address) })
	pings.Go(func() { inside, errs[1] = ping(ctx, p.Netns, p.Peer) })
	if err := hns.Start(ctx, p.Namespace); err != nil {
		cancel()
		pings.Wait()
		return firstPing{}, err
	}
	started := time.Now()
	pings.Wait()
	return firstPing{Started: started.Sub(begin), FromHost: outside.Sub(begin), FromPod: inside.Sub(begin)}, errors.Join(errs[:]...)
}
