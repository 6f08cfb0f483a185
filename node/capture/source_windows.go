package capture

import "errors"

// open refuses: Windows has no packet socket, and its own program, pktmon, has one capture a host, which may be
// somebody else's.
func open(string, instructions) (source, error) {
	return nil, errors.New("weft captures no packets on Windows nodes: use pktmon on the node, as docs/operations.md says")
}
