//go:build ansible

package ansible

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTableOfVariablesIsThatOfTheRoles(t *testing.T) {
	if out, err := exec.Command("python3", "../../ansible/docs.py", "--check").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRangesThatCannotWorkAreNamed(t *testing.T) {
	const hosts = `"hosts": {"c1": "192.0.2.11"}`
	for _, test := range []struct{ name, asked, want string }{
		{"all is well", `{"ranges": {"weft_pod_cidrs": ["10.244.0.0/16", "fd00:10:244::/48"], "weft_service_cidrs": ["10.96.0.0/16"]}, ` + hosts + `}`, ""},
		{"no range", `{"ranges": {"weft_pod_cidrs": ["10.244.0.0/33"]}, ` + hosts + `}`,
			"weft_pod_cidrs has 10.244.0.0/33: '10.244.0.0/33' does not appear to be an IPv4 or IPv6 network; write it as 10.244.0.0/16 or fd00:10:244::/48"},
		{"host bits", `{"ranges": {"weft_pod_cidrs": ["10.244.1.0/16"]}, ` + hosts + `}`,
			"weft_pod_cidrs has 10.244.1.0/16: 10.244.1.0/16 has host bits set; write it as 10.244.0.0/16 or fd00:10:244::/48"},
		{"overlap", `{"ranges": {"weft_pod_cidrs": ["10.96.0.0/12"], "weft_service_cidrs": ["10.96.0.0/16"]}, ` + hosts + `}`,
			"weft_pod_cidrs 10.96.0.0/12 overlaps with weft_service_cidrs 10.96.0.0/16: choose ranges that are disjoint"},
		{"one family twice", `{"ranges": {"weft_pod_cidrs": ["10.244.0.0/16", "10.245.0.0/16"]}, ` + hosts + `}`,
			"weft_pod_cidrs has two ranges of one address family, 10.244.0.0/16 and 10.245.0.0/16: give one of IPv4 and one of IPv6"},
		{"host in a range", `{"ranges": {"weft_pod_cidrs": ["192.0.2.0/24"]}, ` + hosts + `}`,
			"host c1 has the address 192.0.2.11, which is in weft_pod_cidrs 192.0.2.0/24: choose another range"},
		{"host without address", `{"ranges": {}, "hosts": {"c1": "c1.example"}}`,
			"host c1 is reached at c1.example, which is no address: set weft_address for it to the one at which other hosts reach it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := exec.Command("python3", "../../ansible/roles/weft_common/files/ranges.py", test.asked).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != test.want {
				t.Errorf("ranges.py says %q (%v), want %q", got, err, test.want)
			}
		})
	}
}
