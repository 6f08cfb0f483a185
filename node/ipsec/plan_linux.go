package ipsec

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// association is an IKE_SA of charon's, see "list-sa" of vici.
type association struct {
	ID          string                 `vici:"uniqueid"`
	State       string                 `vici:"state"`
	Initiator   bool                   `vici:"initiator"`
	Established int64                  `vici:"established"` // seconds ago
	Children    map[string]childStatus `vici:"child-sas"`

	peer netip.Addr
}

type childStatus struct {
	ID    string `vici:"uniqueid"`
	Name  string `vici:"name"`
	State string `vici:"state"`
	Out   string `vici:"spi-out"` // in hexadecimal
}

// States of an IKE_SA and of a CHILD_SA.
const (
	stateConnecting  = "CONNECTING"
	stateEstablished = "ESTABLISHED"
	stateInstalled   = "INSTALLED"
)

// carries says whether this node sends by it.
func (a association) carries() bool {
	if !a.Initiator || a.State != stateEstablished {
		return false
	}
	for _, c := range a.Children {
		// While a child is rekeyed, the kernel still has the old one or already the new one.
		if c.Name == childOut && slices.Contains([]string{stateInstalled, "REKEYING", "UPDATING"}, c.State) {
			return true
		}
	}
	return false
}

func (a association) age() time.Duration { return time.Duration(a.Established) * time.Second }

// steps are what to do with the associations.
type steps struct {
	initiate []netip.Addr
	retire   []association // which others have replaced
	end      []association
	missing  []netip.Addr
}

// plan compares associations with what there must be: for each peer one that this node has opened and that is younger
// than renewal and than the credentials, and none that has been renewed or has not been for too long. opening are peers
// to whom one is being opened.
func plan(peers []netip.Addr, found []association, opening func(netip.Addr) bool, credentialsAge,
	renewal time.Duration) steps {
	var s steps
	for _, a := range found {
		gone := !slices.Contains(peers, a.peer)
		if gone || !a.Initiator && a.State == stateEstablished && a.age() > 2*renewal {
			s.end = append(s.end, a)
		}
	}
	for _, peer := range peers {
		connecting := opening(peer)
		var fresh, outdated, useless []association
		for _, a := range found {
			switch {
			case a.peer != peer || !a.Initiator:
			case a.State == stateConnecting:
				connecting = true
			case a.carries() && a.age() < min(renewal, credentialsAge+time.Second): // charon counts whole seconds
				fresh = append(fresh, a)
			case a.carries():
				outdated = append(outdated, a)
			case a.State == stateEstablished && !connecting: // without its child
				useless = append(useless, a)
			}
		}
		if len(fresh)+len(outdated) == 0 {
			s.missing = append(s.missing, peer)
		}
		slices.SortFunc(fresh, func(a, b association) int { return cmp.Compare(a.Established, b.Established) })
		switch {
		case len(fresh) > 0:
			s.retire = slices.Concat(s.retire, outdated, fresh[1:])
		case !connecting:
			s.initiate = append(s.initiate, peer)
		}
		s.end = append(s.end, useless...)
	}
	return s
}

// farewell closes all associations, in two steps that lose no packet: by closing a child, one has the peer end what it
// sends before this node ends to take it, which closing the IKE_SA does not.
func farewell(found []association) (children []string, last []association) {
	for _, a := range found {
		taking := slices.ContainsFunc(slices.Collect(maps.Values(a.Children)), func(c childStatus) bool {
			return c.Name == childIn && c.State != "DELETED"
		})
		if !taking {
			last = append(last, a)
		}
		for _, c := range a.Children {
			if c.Name == childIn && c.State == stateInstalled {
				children = append(children, c.ID)
			}
		}
	}
	return children, last
}
