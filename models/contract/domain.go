package contract

import (
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"
)

// DNSServices are the cluster's DNS Services where nobody says otherwise. What their servers answer is
// believed, and what anybody else says is not.
var DNSServices = []string{"kube-system/kube-dns"}

var serviceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z]([-a-z0-9]*[a-z0-9])?$`)

// CheckDNSServices says which of them is not NAMESPACE/NAME.
func CheckDNSServices(services []string) error {
	for _, text := range services {
		if !serviceName.MatchString(text) {
			return fmt.Errorf("dns-services: %q is not NAMESPACE/NAME of a Service; write it like %s", text, DNSServices[0])
		}
	}
	return nil
}

// DNSPort says whether DNS is spoken at a port of a DNS Service's endpoints: at 53, and where the port's name says so.
// DNS Services have others, such as for metrics.
func DNSPort(name string, port uint16) bool {
	return port == 53 || name == "dns" || strings.HasPrefix(name, "dns-")
}

// How long an address of a domain name counts after an answer that had it: for its time to live, which is taken for
// DomainLongest at most, and then for DomainGrace.
const (
	DomainLongest = 24 * time.Hour
	DomainGrace   = time.Minute
)

// How many addresses a node may say: of a name that is no pattern, and in all.
const (
	DomainAddresses      = 256
	DomainAddressesInAll = 8000
)

// DomainName is the normal form of a domain name, or of a pattern that begins with "*.": names differ
// neither by case nor by a dot at the end.
func DomainName(text string) string { return strings.ToLower(strings.TrimSuffix(text, ".")) }

// DomainPatterns are all that name a domain in normal form: itself, then "*." and what is left of it
// after one label and more. The first that somebody wants is the closest.
func DomainPatterns(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(name) {
			return
		}
		for {
			_, rest, more := strings.Cut(name, ".")
			if !more || !yield("*."+rest) {
				return
			}
			name = rest
		}
	}
}
