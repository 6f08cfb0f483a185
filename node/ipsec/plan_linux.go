package ipsec

import (
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
	Name  string `vici:"name"`
	State string `vici:"state"`
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
	initiate  []netip.Addr
	terminate []string // IDs
	missing   []netip.Addr
}

// plan compares associations with what there shall be: for each peer one that this node has opened and that is younger
// than renewal and than the credentials, and none that has been renewed or has not been for too long. opening are peers
// to whom one is being opened.
func plan(peers []netip.Addr, found []association, opening func(netip.Addr) bool, credentialsAge, renewal time.Duration) steps {
	var s steps
	for _, a := range found {
		gone := !slices.Contains(peers, a.peer)
		if gone || !a.Initiator && a.State == stateEstablished && a.age() > 2*renewal {
			s.terminate = append(s.terminate, a.ID)
		}
	}
	for _, peer := range peers {
		var fresh, outdated, useless []association
		connecting := opening(peer)
		for _, a := range found {
			switch {
			case a.peer != peer || !a.Initiator:
			case a.State == stateConnecting:
				connecting = true
			case a.carries() && a.age() < min(renewal, credentialsAge):
				fresh = append(fresh, a)
			case a.carries():
				outdated = append(outdated, a)
			case a.State == stateEstablished:
				useless = append(useless, a)
			}
		}
		slices.SortFunc(fresh, func(a, b association) int { return int(a.Established - b.Established) })
		switch {
		case len(fresh) > 0:
			outdated = append(outdated, fresh[1:]...)
		case len(outdated) > 0:
			outdated = nil // until there is another one
			fallthrough
		default:
			if !connecting {
				s.initiate = append(s.initiate, peer)
			}
		}
		if !connecting { // its child may not be there yet
			outdated = append(outdated, useless...)
		}
		for _, a := range outdated {
			s.terminate = append(s.terminate, a.ID)
		}
		if !slices.ContainsFunc(found, func(a association) bool { return a.peer == peer && a.carries() }) {
			s.missing = append(s.missing, peer)
		}
	}
	return s
}
