package acl

import (
	"errors"
	"fmt"
)

// Set holds the constants of an address set or of a comparison: addresses, prefixes, numbers.
type Set struct {
	// exact holds values without a mask, masked those of each mask.
	exact  map[number]struct{}
	masked map[number]map[number]struct{}
	// width is the least width of a field that the set can be compared with.
	width int
}

// NewSet reads the addresses of an Address_Set row. An entry that is no constant is left out, as OVN
// leaves it out, and told in the error; the set is good without it.
func NewSet(addresses []string) (*Set, error) {
	s := new(Set)
	var errs []error
	for _, text := range addresses {
		c, err := parseConstant(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("address %q: %w", text, err))
			continue
		}
		s.add(c)
	}
	return s, errors.Join(errs...)
}

func (s *Set) add(c constant) {
	s.width = max(s.width, c.width())
	if !c.masked {
		if s.exact == nil {
			s.exact = map[number]struct{}{}
		}
		s.exact[c.value] = struct{}{}
		return
	}
	if s.masked == nil {
		s.masked = map[number]map[number]struct{}{}
	}
	if s.masked[c.mask] == nil {
		s.masked[c.mask] = map[number]struct{}{}
	}
	s.masked[c.mask][c.value] = struct{}{}
}

func (s *Set) empty() bool { return len(s.exact) == 0 && len(s.masked) == 0 }

func (s *Set) has(n number) bool {
	if _, in := s.exact[n]; in {
		return true
	}
	for mask, values := range s.masked {
		if _, in := values[n.and(mask)]; in {
			return true
		}
	}
	return false
}
