package node

import (
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// controllerCertificates are none: a Windows node's ovn-controller runs on a chassis host.
func controllerCertificates(nodeconfig.Config) []certificates.Watched { return nil }
