package policies

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
)

// TestNamesOfSets: two selections have two names, also where a user has looked for two with one.
func TestNamesOfSets(t *testing.T) {
	seen := map[string]policy.Selection{}
	for i := range 100000 {
		s := policy.Selection{Pods: fmt.Sprintf("!%s%d", strings.Repeat("x", 45), i)}
		name := groupName(s, "", objects.PortNumber{})
		if other, twice := seen[name]; twice {
			t.Fatalf("%v and %v are both %s", s, other, name)
		}
		seen[name] = s
	}
}
