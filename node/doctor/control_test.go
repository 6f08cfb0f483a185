package doctor

import (
	"testing"

	"github.com/weftnet/weft/models/vswitch"
)

// TestWhoseCertificates: what the database says goes before what ovn-controller's command line says.
func TestWhoseCertificates(t *testing.T) {
	const all = "--private-key=key --certificate=crt --ca-cert=ca"
	database := &vswitch.SSL{PrivateKey: "db-key", Certificate: "db-crt", CaCert: "db-ca"}
	for name, c := range map[string]struct {
		arguments string
		ssl       *vswitch.SSL
		want      pair
		none      bool
	}{
		"command line": {all, nil, pair{OfPeers: true, Of: "ovn-controller's", Key: "key", Certificate: "crt",
			CA: "ca"}, false},
		"database": {"unix:/db.sock", database, pair{OfPeers: true, Of: "Open vSwitch's", Key: "db-key",
			Certificate: "db-crt", CA: "db-ca"}, false},
		"both": {all, database, pair{OfPeers: true, Of: "Open vSwitch's", Key: "db-key",
			Certificate: "db-crt", CA: "db-ca"}, false},
		"half of the database's": {all, &vswitch.SSL{CaCert: "db-ca"}, pair{OfPeers: true, Of: "Open vSwitch's",
			CA: "db-ca"}, false},
		"an authority to be met": {"-p key -c crt --bootstrap-ca-cert=ca", nil, pair{OfPeers: true, Of: "ovn-controller's",
			Key: "key", Certificate: "crt", CA: "ca"}, false},
		"neither": {"unix:/db.sock", nil, pair{}, true},
	} {
		got, ok, err := ovnPair(t.Context(), fakeVswitch{found: &openVSwitch{SSL: c.ssl}},
			fakeControl{"arguments": c.arguments})
		if err != nil || ok == c.none || ok && got != c.want {
			t.Errorf("%s: %+v, %v, %v", name, got, ok, err)
		}
	}
}

// TestCertificatesOfTheCommandLine are looked at, and that they cannot be is said.
func TestCertificatesOfTheCommandLine(t *testing.T) {
	none := fakeVswitch{found: &openVSwitch{}}
	told := fakeControl{"arguments": "--private-key=key --certificate=crt --ca-cert=ca"}
	expect(t, checkCertificates(t.Context(), Config{}, fakeFiles{}, none, told), "failed", "ovn-controller's certificate",
		"crt")
	expect(t, checkCertificates(t.Context(), Config{}, fakeFiles{}, none, fakeControl{}), "ok", "none")
	expect(t, checkCertificates(t.Context(), Config{}, fakeFiles{}, none, refusingControl{errBroken}), "unknown",
		"command line")
	expect(t, checkCertificates(t.Context(), Config{Hosted: true}, fakeFiles{}, none, refusingControl{errBroken}),
		"unknown", "the agent's")
}
