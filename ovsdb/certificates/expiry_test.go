package certificates_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/ovsdb/certificates"
	"github.com/weftnet/weft/test/lab/pki"
)

// TestExpiryIsThatOfTheFirst certificate of a file, now: a renewal is seen, and what cannot be read is no silence.
func TestExpiryIsThatOfTheFirst(t *testing.T) {
	s := newScene(t)
	issue := func(end time.Time) []byte {
		pair, err := s.ca.Issue(pki.Subject{Name: "x", NotBefore: end.Add(-time.Hour), NotAfter: end})
		if err != nil {
			t.Fatal(err)
		}
		return pair.Cert
	}
	soon := time.Unix(1_900_000_000, 0)
	later := soon.Add(time.Hour)
	s.write(s.files.Certificate, bytes.Join([][]byte{issue(later), issue(soon)}, nil))
	expiry := certificates.NewExpiry(append(certificates.OfKubeconfig("/etc/admin.conf",
		rest.TLSClientConfig{CertData: issue(later)}),
		certificates.Watched{Purpose: "own", File: s.files.Certificate},
		certificates.Watched{Purpose: "absent", File: "/none.crt"}, certificates.Watched{Purpose: "unset"})...)
	wants := func(own int64) {
		t.Helper()
		const name = "weft_certificate_expiry_timestamp_seconds"
		want := fmt.Sprintf(`# HELP %[1]s Time (Unix) at which the certificates of a file expire, by the key that names the file: of several, the one that expires first counts; 0 if the file cannot be read, has no certificate, or has one that cannot be read.
# TYPE %[1]s gauge
%[1]s{file="/none.crt",purpose="absent"} 0
%[1]s{file="/etc/admin.conf",purpose="kubeconfig"} %[2]d
%[1]s{file=%[3]q,purpose="own"} %[4]d
`, name, later.Unix(), s.files.Certificate, own)
		if err := testutil.CollectAndCompare(expiry, strings.NewReader(want), name); err != nil {
			t.Error(err)
		}
	}
	wants(soon.Unix())
	s.write(s.files.Certificate, issue(later))
	wants(later.Unix())
	s.write(s.files.Certificate, []byte("no certificate"))
	wants(0)
}
