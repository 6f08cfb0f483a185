package ovncontroller

import (
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// Certificates are none: a Windows node's ovn-controller runs on a chassis host.
func Certificates(nodeconfig.Config) []certificates.Watched { return nil }
