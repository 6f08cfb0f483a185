//go:build linux

package chassis

import (
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/tenure"
)

// sightings are the Leases as this host last saw them, and since when by its own clock. Nothing is
// concluded from other hosts' clocks.
type sightings struct {
	fallback time.Duration // of a host's Lease that does not say its duration

	mu   sync.Mutex
	seen map[string]sighting
}

// sighting is a Lease, nil while there is none, unchanged since then.
type sighting struct {
	lease *coordinationv1.Lease
	since time.Time
}

func newSightings(fallback time.Duration) *sightings {
	return &sightings{fallback: fallback, seen: map[string]sighting{}}
}

// note records a Lease as it was read or written. What is older than what is known changes nothing:
// a watch comes after the answers to this host's own requests.
func (s *sightings) note(lease *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.seen[lease.Name]
	if known && before.lease != nil && older(lease, before.lease) {
		return
	}
	if known && sameClaim(before.lease, lease) {
		before.lease = lease // what else it says may have changed
		s.seen[lease.Name] = before
		return
	}
	s.seen[lease.Name] = sighting{lease, time.Now()}
}

// gone records that a Lease does not exist, or no more; last, if not nil, is it at its end.
func (s *sightings) gone(name string, last *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.seen[name]
	if known && before.lease == nil || before.lease != nil && last != nil && last.UID != before.lease.UID &&
		older(last, before.lease) {
		return
	}
	s.seen[name] = sighting{since: time.Now()}
}

func older(a, b *coordinationv1.Lease) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

// sameClaim: the holder has not renewed in between.
func sameClaim(a, b *coordinationv1.Lease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && tenure.Holder(a) == tenure.Holder(b) && transitions(a) == transitions(b) &&
		a.Spec.RenewTime.Equal(b.Spec.RenewTime)
}

// of returns the sighting of a Lease. One never seen is noted as absent from now on.
func (s *sightings) of(name string) sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, known := s.seen[name]
	if !known {
		found = sighting{since: time.Now()}
		s.seen[name] = found
	}
	return found
}

// prune forgets Leases that have not existed for that long, except for the wanted ones.
func (s *sightings) prune(wanted map[string]bool, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.seen, func(name string, seen sighting) bool {
		return seen.lease == nil && !wanted[name] && time.Since(seen.since) >= after
	})
}

// silent says whether a host has not been heard of for its Lease's duration: it holds nothing any more,
// unless this host has missed something.
func (s *sightings) silent(identity string) bool {
	sighting := s.of(hostLease(identity))
	return time.Since(sighting.since) >= duration(sighting.lease, s.fallback)
}

// live is a host that has a Lease and is not silent.
func (s *sightings) live(identity string) bool {
	return s.of(hostLease(identity)).lease != nil && !s.silent(identity)
}

// leases are all that were seen and exist, of one kind.
func (s *sightings) leases(kind string) []*coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	var leases []*coordinationv1.Lease
	for _, sighting := range s.seen {
		if sighting.lease != nil && sighting.lease.Labels[contract.ChassisLeaseLabel] == kind {
			leases = append(leases, sighting.lease)
		}
	}
	return leases
}
