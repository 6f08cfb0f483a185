package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// The routes to virtual addresses have a table of their own, which is for connections alone that the host begins
// from no address in particular, or from the management port's. An address that somebody made a Service's may be
// anybody's: were the routes for all, whoever may write Services would cut the host from its clients there, whose
// connections it answers from another address, and the host would pass others' packets on as its own.
const (
	vipTable    = 0x7765 // "we"
	vipPriority = vipTable
)

// vipRule has lookups from an address use the table.
type vipRule struct {
	source netip.Prefix
	flags  uint32
}

// Of linux/fib_rules.h. findSource has a rule of IPv6 match who has no source yet, if the source that he would get
// does.
const (
	ruleHeader   = 12 // struct fib_rule_hdr
	ruleToTable  = 1  // FR_ACT_TO_TBL
	ruleSource   = 2  // FRA_SRC
	rulePriority = 6  // FRA_PRIORITY
	ruleTable    = 15 // FRA_TABLE
	findSource   = 1 << 16
)

// vipRules are those by which a host whose management port has these addresses finds the routes.
func vipRules(sources []netip.Addr) []vipRule {
	var rules []vipRule
	for _, source := range sources {
		rule := vipRule{source: netip.PrefixFrom(source, source.BitLen())}
		if source.Is4() {
			rules = append(rules, vipRule{source: netip.PrefixFrom(netip.IPv4Unspecified(), 32)})
		} else {
			rule.flags = findSource
		}
		rules = append(rules, rule)
	}
	return rules
}

func (r vipRule) message() message {
	m := message{header: make([]byte, ruleHeader)}
	m.header[0] = unix.AF_INET6
	if r.source.Addr().Is4() {
		m.header[0] = unix.AF_INET
	}
	m.header[2], m.header[7] = byte(r.source.Bits()), ruleToTable
	binary.NativeEndian.PutUint32(m.header[8:], r.flags)
	return m.with(ruleSource, r.source.Addr().AsSlice()).with(rulePriority, nativeNumber(vipPriority)).with(ruleTable,
		nativeNumber(vipTable))
}

// ensureVIPRules makes the rules of the table those of the sources.
func ensureVIPRules(sources []netip.Addr) error {
	missing := vipRules(sources)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		all, err := dump(unix.RTM_GETRULE, family, ruleHeader)
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
			return fmt.Errorf("list the host's routing rules: %w", err)
		}
		for _, m := range all {
			if m.number(ruleTable) != vipTable {
				continue
			}
			addr, _ := netip.AddrFromSlice(m.get(ruleSource))
			found := vipRule{netip.PrefixFrom(addr, int(m.header[2])), binary.NativeEndian.Uint32(m.header[8:])}
			if i := slices.Index(missing, found); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
				continue
			}
			if err := send(unix.RTM_DELRULE, 0, m); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove the routing rule from %v to table %d: %w", found.source, vipTable, err)
			}
		}
	}
	for _, rule := range missing {
		if err := send(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, rule.message()); err != nil &&
			!errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add the routing rule from %v to table %d: %w", rule.source, vipTable, err)
		}
	}
	return nil
}
