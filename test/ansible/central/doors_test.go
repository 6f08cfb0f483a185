//go:build ansible

package central

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoorsCertificateIsRenewed also when the API server reaches no door, as with a certificate that has expired. The
// API server trusts the authority of the new certificate before the door shows it.
func TestDoorsCertificateIsRenewed(t *testing.T) {
	const (
		former     = "the former one"
		signs      = "echo eA=="
		outOfReach = "echo 'False no route'"
	)
	authorities := t.TempDir()
	plays(t, "certificates.yml", []string{"Authorities, on the control node"}, "[weft_central]\nc1\n", "",
		"--extra-vars", "weft_pki_dir="+authorities)
	for name, test := range map[string]struct {
		condition string // of the APIService, as a script of sh with the door's certificate as $crt
		request   string // what becomes of a request for a certificate of the API server
		fails     bool
	}{
		"it has expired": {"grep -q '" + former + "' $crt && echo 'False expired' || echo 'True reached'", signs,
			false},
		"the doors are out of reach":   {outOfReach, signs, true},
		"the API server signs nothing": {outOfReach, "exit 3", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.RemoveAll(filepath.Join(authorities, "kubernetes")); err != nil { // of the case before
				t.Fatal(err)
			}
			certificate := filepath.Join(dir, "pki/observe.crt")
			if err := os.Mkdir(filepath.Dir(certificate), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{filepath.Join(dir, "observe.yaml"), certificate} {
				if err := os.WriteFile(file, []byte(former), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			asked, out, err := attempt(t, "certificates.yml", []string{"Doors for users of the API server"},
				"[weft_central]\nc1\n", "crt="+certificate+"; trusted="+dir+`/trusted
case "$*" in
"diff "*) test -e $trusted;;
"apply "*) cp $crt $trusted;;
"get apiservice "*) `+test.condition+`;;
"get certificatesigningrequest "*) `+test.request+`;;
"config view "*) echo '{"clusters": [{"cluster": {"server": "https://c1", "certificate-authority-data": "eA=="}}]}';;
esac
`, "--extra-vars", "weft_etc="+dir+" weft_pki_host_dir="+dir+"/pki weft_pki_dir="+authorities+" weft_timeout=1",
				"--extra-vars", "weft_observe_user=root")
			if fails := err != nil; fails != test.fails || fails && !strings.Contains(out, "reaches no weft observe") {
				t.Errorf("it ends with %v:\n%s", err, out)
			}
			now, err := os.ReadFile(certificate)
			if err != nil || !strings.Contains(string(now), "BEGIN CERTIFICATE") {
				t.Errorf("the certificate is not renewed (%v):\n%s", err, out)
			}
			if shown, err := os.ReadFile(filepath.Join(dir, "trusted")); string(shown) != former {
				t.Errorf("when the API server got to trust the authority, the door showed %q (%v)", shown, err)
			}
			if stays := !strings.Contains(asked, "delete --ignore-not-found apiservice"); stays == test.fails {
				t.Errorf("the APIService stays: %v. kubectl was asked:\n%s", stays, asked)
			}
		})
	}
}
