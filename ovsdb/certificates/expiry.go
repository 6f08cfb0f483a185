package certificates

import (
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Watched is a file with certificates that a program shows or trusts.
type Watched struct {
	// Purpose is the key that names the file.
	Purpose string
	File    string
	// PEM is the text where it is no file's, as within a kubeconfig; File says where it is from then.
	PEM []byte
}

// OfKubeconfig are the certificates by which a program and the API server know each other.
func OfKubeconfig(kubeconfig string, c rest.TLSClientConfig) []Watched {
	return []Watched{inKubeconfig("kubeconfig", kubeconfig, c.CertFile, c.CertData),
		inKubeconfig("kubeconfig-ca", kubeconfig, c.CAFile, c.CAData)}
}

// inKubeconfig is a text in a kubeconfig, or the file that the kubeconfig names; it is empty if it has neither.
func inKubeconfig(purpose, kubeconfig, file string, text []byte) Watched {
	if len(text) > 0 {
		file = kubeconfig
	}
	return Watched{purpose, file, text}
}

// Expiry tells when certificates expire. The files are read whenever it is asked, so that a renewal is seen.
type Expiry struct{ files func() []Watched }

// NewExpiry is for files that are always the same. Those without a name are left out.
func NewExpiry(files ...Watched) Expiry { return Expiry{func() []Watched { return files }} }

// NewExpiryOf is for files of which others come and go.
func NewExpiryOf(files func() []Watched) Expiry { return Expiry{files} }

var expiry = prometheus.NewDesc("weft_certificate_expiry_timestamp_seconds",
	"Time (Unix) at which the certificates of a file expire, by the key that names the file: of several, the one that "+
		"expires first counts; 0 if the file cannot be read, has no certificate, or has one that cannot be read.",
	[]string{"purpose", "file"}, nil)

// Describe is part of [prometheus.Collector].
func (Expiry) Describe(out chan<- *prometheus.Desc) { out <- expiry }

// Collect is part of [prometheus.Collector].
func (e Expiry) Collect(out chan<- prometheus.Metric) {
	for _, f := range e.files() {
		if f.File == "" && len(f.PEM) == 0 {
			continue
		}
		seconds := 0.0
		if end, err := f.end(); err == nil {
			seconds = float64(end.Unix())
		}
		out <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, seconds, f.Purpose, f.File)
	}
}

// end is when the first of the certificates expires.
func (f Watched) end() (end time.Time, err error) {
	text := f.PEM
	if len(text) == 0 {
		if text, err = os.ReadFile(f.File); err != nil {
			return end, err
		}
	}
	all, err := cert.ParseCertsPEM(text)
	if err != nil {
		return end, err
	}
	for _, c := range all {
		if end.IsZero() || c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end, nil
}
