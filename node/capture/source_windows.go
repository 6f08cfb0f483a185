package capture

import "errors"

// supported refuses: Windows has no packet socket, and its own program, pktmon, has one capture a host, which may be
// somebody else's.
func supported() error {
	return errors.New("weft captures no packets on Windows nodes: use pktmon on the node, as docs/operations.md says")
}

func open(string, instructions) (source, error) { return nil, supported() }
