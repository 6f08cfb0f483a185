package ovncontroller

import (
	"context"
	"time"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/unixctl"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// Certificates are those that the node's ovn-controller has on its command line; none while it does not run.
func Certificates(c nodeconfig.Config) []certificates.Watched {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, socket := range unixctl.Sockets(Folders(c), program) {
		if _, err := unixctl.Call(ctx, socket, "version"); err != nil {
			continue // left over from a process that died
		}
		arguments, err := unixctl.Arguments(socket, program)
		if err != nil {
			return nil
		}
		return []certificates.Watched{
			{Purpose: "ovn-controller", File: unixctl.Option(arguments, "--certificate", "-c")},
			{Purpose: "ovn-controller-ca", File: unixctl.Option(arguments, "--ca-cert", "-C")}}
	}
	return nil
}
