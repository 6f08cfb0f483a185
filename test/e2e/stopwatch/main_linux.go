// Command stopwatch times inside a machine of the lab what must not be timed from outside, where the
// way into the machine would count.
//
//	stopwatch [--hns SOCKET] PLUGIN
//
// Its input is groups of pods as JSON, its output the times of each. The pods of a group are wired at
// the same time, one group comes after the other. With --hns the machine is a Windows node: a pod's
// container starts after its ADD, as that emulated HNS is told.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/test/lab/hcs"
)

// patience with one pod; what takes longer is no matter for a stopwatch.
const patience = 30 * time.Second

func main() {
	hns := flag.String("hns", "", "control socket of a Windows node's HNS")
	flag.Parse()
	if err := run(context.Background(), flag.Arg(0), *hns); err != nil {
		fmt.Fprintln(os.Stderr, "stopwatch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plugin, hns string) error {
	var groups [][]pod
	if err := json.NewDecoder(os.Stdin).Decode(&groups); err != nil {
		return fmt.Errorf("read the pods: %w", err)
	}
	var all []times
	for _, group := range groups {
		took, err := wire(ctx, plugin, hns, group)
		if err != nil {
			return err
		}
		all = append(all, took...)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// pod is one that has its addresses and a network namespace, and nothing in it.
type pod struct {
	Environment []string // of the plugin's ADD
	Config      string
	Namespace   string // the GUID that HNS knows it by
	Netns       string // path
	Peer        string // the IPv4 address of one that is to answer it
}

// times of one pod, in nanoseconds.
type times struct {
	Floor time.Duration // the plugin's answer to VERSION
	Add   time.Duration // its answer to ADD
	// Since the container was told to start, or on Linux since ADD's answer:
	Started time.Duration // its vNIC is made, as far as it is HNS'
	Ping    time.Duration // its peer has answered it
}

// wire takes the times of pods that are wired together, a step after the other.
func wire(ctx context.Context, plugin, hns string, pods []pod) ([]times, error) {
	took := make([]times, len(pods))
	for _, step := range []func(pod, *times) error{
		func(p pod, t *times) (err error) {
			t.Floor, err = p.call(ctx, plugin, slices.Concat(p.Environment, []string{"CNI_COMMAND=VERSION"}))
			return err
		},
		func(p pod, t *times) (err error) {
			t.Add, err = p.call(ctx, plugin, slices.Concat(p.Environment, []string{"CNI_COMMAND=ADD"}))
			return err
		},
		func(p pod, t *times) error { return p.start(ctx, hns, t) },
	} {
		errs := make([]error, len(pods))
		var steps sync.WaitGroup
		for i, p := range pods {
			steps.Go(func() { errs[i] = step(p, &took[i]) })
		}
		steps.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// call runs the plugin and tells how long that took.
func (p pod) call(ctx context.Context, plugin string, environment []string) (time.Duration, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, plugin)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), environment...), strings.NewReader(p.Config), &out,
		&out
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("%s with %q: %w: %s", plugin, environment, err, out.String())
	}
	return took, nil
}

// start pings from before the container's start on: the answer to the first ping that can have one
// counts.
func (p pod) start(ctx context.Context, hns string, took *times) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answered time.Time
	var failed error
	var pings sync.WaitGroup
	begin := time.Now()
	pings.Go(func() { answered, failed = ping(ctx, p.Netns, p.Peer) })
	var err error
	if hns != "" {
		if err = (hcs.HNS{Socket: hns}).Start(ctx, p.Namespace); err != nil {
			cancel()
		}
	}
	started := time.Now()
	pings.Wait()
	took.Started, took.Ping = started.Sub(begin), answered.Sub(begin)
	return errors.Join(err, failed)
}
