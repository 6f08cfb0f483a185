// Package schemas holds the schemas that the models are generated from, for tests that start a
// server of their own.
package schemas

import _ "embed"

// The schemas of OVN 25.03 and Open vSwitch 3.5.
var (
	//go:embed ovn-nb.ovsschema
	Northbound []byte
	//go:embed ovn-sb.ovsschema
	Southbound []byte
	//go:embed vswitch.ovsschema
	OpenVSwitch []byte
)
