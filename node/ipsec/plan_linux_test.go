package ipsec

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var planPeer = netip.MustParseAddr("172.30.0.2")

// own is an IKE_SA that the node has opened to the peer, by which it sends.
func own(id string, age int64) association {
	return association{ID: id, State: stateEstablished, Initiator: true, Established: age, peer: planPeer,
		Children: map[string]childStatus{
			childOut + "-1": {Name: childOut, State: stateInstalled},
		}}
}

func TestPlan(t *testing.T) {
	childless, connecting := own("childless", 5), own("connecting", 0)
	childless.Children, connecting.State, connecting.Children = nil, stateConnecting, nil
	theirs := func(id string, age int64) association {
		return association{ID: id, State: stateEstablished, Established: age, peer: planPeer}
	}
	elsewhere := own("elsewhere", 5)
	elsewhere.peer = netip.MustParseAddr("172.30.0.9")
	for _, test := range []struct {
		name              string
		found             []association
		opening           bool
		changed           time.Duration // since when credentials are as they are
		initiate, missing bool
		retire, end       []string
	}{
		{name: "a new peer", changed: time.Hour, initiate: true, missing: true},
		{name: "a peer that is asked", opening: true, changed: time.Hour, missing: true},
		{name: "a peer that is asked by charon", found: []association{connecting}, changed: time.Hour, missing: true},
		{name: "all is well", found: []association{own("1", 5), theirs("2", 5)}, changed: time.Hour},
		{name: "only the peer has opened one", found: []association{theirs("2", 5)}, changed: time.Hour, initiate: true,
			missing: true},
		{name: "too old", found: []association{own("1", 3700)}, changed: 2 * time.Hour, initiate: true},
		{name: "too old, and asked", found: []association{own("1", 3700), connecting}, changed: 2 * time.Hour},
		{name: "renewed", found: []association{own("1", 3700), own("2", 1)}, changed: 2 * time.Hour, retire: []string{"1"}},
		{name: "other certificates", found: []association{own("1", 60)}, changed: 30 * time.Second, initiate: true},
		{name: "two at once", found: []association{own("1", 60), own("2", 50)}, changed: time.Hour, retire: []string{"1"}},
		{name: "without a child", found: []association{childless}, changed: time.Hour, initiate: true, missing: true,
			end: []string{"childless"}},
		{name: "the peer renews its own no more", found: []association{own("1", 5), theirs("2", 7300)},
			changed: 3 * time.Hour, end: []string{"2"}},
		{name: "no peer any more", found: []association{own("1", 5), elsewhere}, changed: time.Hour,
			end: []string{"elsewhere"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := plan([]netip.Addr{planPeer}, test.found, func(netip.Addr) bool { return test.opening }, test.changed, time.Hour)
			ids := func(associations []association) (ids []string) {
				for _, a := range associations {
					ids = append(ids, a.ID)
				}
				return ids
			}
			if got := len(s.initiate) > 0; got != test.initiate {
				t.Errorf("initiates: %v", got)
			}
			if got := len(s.missing) > 0; got != test.missing {
				t.Errorf("missing: %v", got)
			}
			if got := ids(s.retire); !slices.Equal(got, test.retire) {
				t.Errorf("retires %v, want %v", got, test.retire)
			}
			if got := ids(s.end); !slices.Equal(got, test.end) {
				t.Errorf("ends %v, want %v", got, test.end)
			}
		})
	}
}

func TestPayload(t *testing.T) {
	for _, test := range []struct{ mtu, header, want int }{{1500, 20, 1446}, {1500, 40, 1426}, {1501, 20, 1446},
		{1503, 20, 1446}, {1504, 20, 1450}, {9000, 20, 8946}} {
		if got := Payload(test.mtu, test.header); got != test.want {
			t.Errorf("MTU %d behind %d bytes: %d, want %d", test.mtu, test.header, got, test.want)
		}
	}
}

func TestCredentialsSayWhatIsWrong(t *testing.T) {
	// See [Files.read].
	address := netip.MustParseAddr("172.30.0.1")
	dir := t.TempDir()
	good, other := newAuthority(t), newAuthority(t)
	n := &node{world: &world{tb: t}, address: address, dir: dir, files: Files{dir + "/ca", dir + "/crt", dir + "/key"}}
	for _, test := range []struct {
		name, want string
		place      func()
		now        time.Time
	}{
		{"good", "", func() { n.place(good, good) }, time.Now()},
		{"of another authority", "encryption-certificate", func() { n.place(other, good) }, time.Now()},
		{"of another address", "CN=172.30.0.2", func() { n.placeFor(planPeer, good, good) }, time.Now()},
		{"too late", "expired", func() { n.place(good, good) }, time.Now().Add(48 * time.Hour)},
		{"no authority", "encryption-ca", func() { n.place(good) }, time.Now()},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.place()
			_, err := n.files.read(address, test.now)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
