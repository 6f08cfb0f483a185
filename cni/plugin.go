package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// PluginType is the plugin's type in network configurations: the name of its program.
const PluginType = "weft-cni"

// Versions of the specification that the plugin speaks.
var Versions = version.PluginSupports("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")

// Plugin is the program that the container runtime runs for each verb.
type Plugin struct {
	// Dial connects to the agent that listens at socket; an empty one is the platform's default.
	Dial func(ctx context.Context, socket string) (net.Conn, error)
	// Leftover says whether the node still has something of an attachment that an agent would
	// have to remove. It decides a DEL that finds no agent.
	Leftover func(Attachment) bool
	// Stdout receives results.
	Stdout io.Writer
}

// The agent gives up long before; this ends a call to an agent that hangs.
const pluginTimeout = 3 * time.Minute

// Funcs are the verbs as skel calls them.
func (p *Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{Add: p.add, Del: p.del, Check: p.check, Status: p.status, GC: p.gc}
}

func (p *Plugin) add(args *skel.CmdArgs) error {
	answer, err := p.ask(Add, args)
	if err != nil {
		return unreachable(err, types.ErrTryAgainLater)
	}
	result := &types100.Result{}
	if err := json.Unmarshal(answer, result); err != nil {
		return types.NewError(types.ErrIOFailure, "decode the weft agent's result: "+err.Error(), string(answer))
	}
	wanted, err := (&version.ConfigDecoder{}).Decode(args.StdinData)
	if err != nil {
		return decodingFailure("network configuration", err)
	}
	converted, err := result.GetAsVersion(wanted)
	if err != nil {
		return types.NewError(types.ErrIncompatibleCNIVersion, fmt.Sprintf("result for CNI %s: %v", wanted, err), "")
	}
	return converted.PrintTo(p.Stdout)
}

func (p *Plugin) del(args *skel.CmdArgs) error {
	_, err := p.ask(Del, args)
	if errors.Is(err, ErrUnreachable) && !p.Leftover(Attachment{ContainerID: args.ContainerID, IfName: args.IfName}) {
		return nil // the device is gone; rows that may remain are swept when an agent starts
	}
	return unreachable(err, types.ErrTryAgainLater)
}

func (p *Plugin) check(args *skel.CmdArgs) error {
	_, err := p.ask(Check, args)
	return unreachable(err, types.ErrTryAgainLater)
}

func (p *Plugin) status(args *skel.CmdArgs) error {
	_, err := p.ask(Status, args)
	return unreachable(err, ErrNotAvailable)
}

func (p *Plugin) gc(args *skel.CmdArgs) error {
	_, err := p.ask(GC, args)
	return unreachable(err, types.ErrTryAgainLater)
}

func (p *Plugin) ask(verb Verb, args *skel.CmdArgs) ([]byte, error) {
	var config struct {
		Socket string `json:"socket"`
	}
	if err := json.Unmarshal(args.StdinData, &config); err != nil {
		return nil, decodingFailure("network configuration", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pluginTimeout)
	defer cancel()
	client := &Client{Dial: func(ctx context.Context) (net.Conn, error) { return p.Dial(ctx, config.Socket) }}
	return client.Do(ctx, verb, Request{
		ContainerID: args.ContainerID, Netns: args.Netns, IfName: args.IfName, Args: args.Args, Config: args.StdinData,
	})
}

// unreachable gives [ErrUnreachable] a code of the specification and leaves other errors alone.
func unreachable(err error, code uint) error {
	if !errors.Is(err, ErrUnreachable) {
		return err
	}
	return types.NewError(code, ErrUnreachable.Error()+"; is `weft node` running on this node?", err.Error())
}
