package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/node/daemons"
	"github.com/weftnet/weft/node/unixctl"
	"github.com/weftnet/weft/ovn/southbound"
)

const southboundHelp = `Stand before the OVN Southbound, and let each node's ovn-controller write what is its own.

Run it beside each of the Southbound's servers, whose unix socket it is a client of; that server needs no port for nodes.
A node is whom its certificate names (CN). It reads everything; it writes the rows that bear its chassis' name, and claims
ports that are meant for it (requested-chassis, l3gateway-chassis, a group of chassis that it is in) or for
nobody. It writes neighbours and MAC addresses where it may learn them. What it is refused is logged, with the node.`

func southboundCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "southbound",
		Short: "Stand before the OVN Southbound, and let each node write its own rows and few others",
		Long:  southboundHelp,
	}
	f := cmd.Flags()
	f.StringSlice("listen", nil, "HOST:PORT where nodes find the Southbound"+required)
	f.String("ovn-southbound", "", "socket of the Southbound's server, unix:PATH"+required)
	f.String("certificate", "", "PEM file of the certificate that nodes are shown: that of the Southbound"+
		required)
	f.String("private-key", "", "PEM file of the key of certificate"+required)
	f.String("node-ca", "", "PEM file of the CA that signed the nodes' certificates"+required)
	metricsFlags(f, "127.0.0.1:9642")
	return daemon(cmd, func(ctx context.Context, s *settings) error {
		config := southbound.Config{
			Listen: s.list("listen"), Database: s.text("ovn-southbound"), Certificate: s.text("certificate"),
			PrivateKey: s.text("private-key"),
			NodeCA:     s.text("node-ca"), MetricsAddress: s.text("metrics-address"),
			Profiling: s.boolean("profiling"),
		}
		if err := errors.Join(s.err(), config.Validate()); err != nil {
			return fmt.Errorf("configuration:\n%w", err)
		}
		return southbound.Run(ctx, config, daemons.New(func() []daemons.Daemon { return centralDaemons(config.Database) }))
	})
}

// centralDaemons are those that have their control sockets beside the Southbound's server.
func centralDaemons(database string) (list []daemons.Daemon) {
	const relay = "ovnsb_relay"
	folder := filepath.Dir(strings.TrimPrefix(database, "unix:"))
	for _, name := range []string{"ovnnb_db", "ovnsb_db", "ovn-northd", relay} {
		sockets := unixctl.Sockets([]string{folder}, name)
		if name != relay || len(sockets) > 0 { // not every host has one
			list = append(list, daemons.Daemon{Name: name, Sockets: sockets})
		}
	}
	return list
}
