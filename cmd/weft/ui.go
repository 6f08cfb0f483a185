package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/cli/browser"
	"github.com/spf13/cobra"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/httpserver"
	"github.com/weftnet/weft/models/version"
	"github.com/weftnet/weft/node/doctor"
	"github.com/weftnet/weft/ui"
)

const uiHelp = `Show the network on a page in a browser: the map of nodes, pods and Services with their health; a packet's way step by
step, with the rule that decides; and what is not in force.

This program serves the page on 127.0.0.1 alone, and asks the API server by your kubeconfig, so the page shows what you may
see. It needs the ClusterRoles ` + api.NetworkStatusRole + `, ` + api.NetworkTopologyRole + ` and ` + api.TraceRole + `, and to list
Services and EndpointSlices, as the role view. Where a right is missing, the page says which.

The address opens the page once. To have it twice, duplicate its tab.`

// pageLimits are those of the page's server. An answer waits for the API server.
var pageLimits = httpserver.Limits{Connections: 64, Header: 5 * time.Second, Request: 10 * time.Second,
	Answer: time.Minute, Idle: time.Minute}

func uiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ui",
		Short:   "Show the network on a page in a browser",
		Long:    uiHelp,
		Example: "  weft ui\n  weft ui -n shop --context production\n  weft ui --no-open --port 8600",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "the command was interrupted"},
		exitCode{doctor.ExitNotAsked, "the page is not served; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("namespace", "n", "", "show this namespace alone; empty: all of them")
	f.Int("port", 0, "port of 127.0.0.1 at which the page is served; 0: a free one")
	f.Bool("no-open", false, "print the page's address, and open no browser")
	// The page's questions have a limit of their own.
	return offline(cmd, doctor.ExitNotAsked, cobra.NoArgs, func(_ context.Context, s *settings, _ []string) error {
		config, _, err := contextConfig(s)
		port, open := s.integer("port"), !s.boolean("no-open")
		about := ui.About{Context: s.text("context"), Namespace: s.text("namespace"), Version: version.Version()}
		if err := errors.Join(s.err(), err); err != nil {
			return err
		}
		if port < 0 || port > 65535 {
			return fmt.Errorf("port: %d is not from 0 to 65535", port)
		}
		cluster, err := ui.NewCluster(config, about)
		if err != nil {
			return err
		}
		return servePage(cmd, cluster, port, open)
	})
}

// servePage serves until the command is interrupted.
func servePage(cmd *cobra.Command, cluster *ui.Cluster, port int, open bool) error {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopback, uint16(port))))
	if err != nil {
		return fmt.Errorf("port: %w; give another one", err)
	}
	page := ui.NewPage(cluster, listener.Addr().(*net.TCPAddr).AddrPort())
	fmt.Fprintf(cmd.OutOrStdout(), "The page, until you interrupt: %s\n", page.URL())
	if open {
		browser.Stdout, browser.Stderr = cmd.ErrOrStderr(), cmd.ErrOrStderr()
		go func() {
			if err := browser.OpenURL(page.URL()); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "weft: open a browser: %v; open the address yourself\n", err)
			}
		}()
	}
	return httpserver.Serve(cmd.Context(), listener, page, pageLimits)
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
