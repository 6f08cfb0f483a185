//go:build linux

package hyperv

import "errors"

// statistics count what became of packets.
type statistics struct {
	hits, misses, lost uint64
	// losses counts packets by why they have gone no further.
	losses map[string]uint64
}

// lose counts a packet that goes no further though no flow has said so, by why.
func (s *statistics) lose(why error) {
	if !errors.Is(why, errPending) {
		s.losses[why.Error()]++
	}
}

// encode: struct ovs_dp_stats, of a datapath with so many flows.
func (s *statistics) encode(flows int) []byte {
	b := native.AppendUint64(nil, s.hits)
	b = native.AppendUint64(b, s.misses)
	b = native.AppendUint64(b, s.lost)
	return native.AppendUint64(b, uint64(flows))
}
