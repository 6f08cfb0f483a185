package node

import (
	"context"
	"time"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/unixctl"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// controllerCertificates are those that the node's ovn-controller has on its command line.
func controllerCertificates(c nodeconfig.Config) []certificates.Watched {
	const daemon = "ovn-controller"
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, socket := range unixctl.Sockets(controllerFolders(c), daemon) {
		if _, err := unixctl.Call(ctx, socket, "version"); err != nil {
			continue // left over from a process that died
		}
		arguments, err := unixctl.Arguments(socket, daemon)
		if err != nil {
			return nil
		}
		return []certificates.Watched{
			{Purpose: "ovn-controller", File: unixctl.Option(arguments, "--certificate", "-c")},
			{Purpose: "ovn-controller-ca", File: unixctl.Option(arguments, "--ca-cert", "-C")}}
	}
	return nil
}
