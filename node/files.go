package node

import (
	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/node/statefile"
)

var (
	daemonsFile = &hostfile.File{
		Path: "{data-dir}/daemons.json", Mode: statefile.Mode,
		Content: "The ports at which daemons of the host listen. On Windows it is in state-dir.",
		Loss:    "After a restart of the machine, Services and pods may get the ports before the daemons do.",
	}
	conflistFile = &hostfile.File{
		Path: "{cni-conf-dir}/{cni-conf-name}", Mode: 0o644,
		Content: "The CNI configuration by which the container runtime finds weft-cni.",
		Loss:    "The agent writes it again when it can attach pods.",
	}
)
