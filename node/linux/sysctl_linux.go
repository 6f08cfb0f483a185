package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// deviceSysctls are the settings of a device that decide what the host does with its packets.
var deviceSysctls = map[string][]string{
	"ipv4": {
		"accept_local", "accept_redirects", "accept_source_route", "arp_accept", "arp_announce", "arp_filter", "arp_ignore",
		"arp_notify",
		"forwarding", "log_martians", "promote_secondaries", "proxy_arp", "route_localnet", "rp_filter", "secure_redirects",
		"send_redirects",
		"shared_media", "src_valid_mark",
	},
	"ipv6": {
		"disable_ipv6", "accept_dad", "accept_ra", "accept_ra_defrtr", "accept_ra_min_hop_limit", "accept_ra_pinfo",
		"accept_ra_rt_info_max_plen",
		"accept_ra_rt_info_min_plen", "accept_ra_rtr_pref", "accept_redirects", "accept_source_route", "autoconf",
		"dad_transmits", "forwarding",
		"hop_limit", "ndisc_notify", "proxy_ndp", "router_solicitations", "stable_secret", "addr_gen_mode", "use_tempaddr",
	},
}

func sysctlPath(family, device, key string) string {
	return filepath.Join("/proc/sys/net", family, "conf", device, key)
}

// copySysctls gives a device the settings of another. A kernel may lack some, and some cannot be read.
func copySysctls(from, to string) error {
	var errs []error
	for family, keys := range deviceSysctls {
		for _, key := range keys {
			value, err := os.ReadFile(sysctlPath(family, from, key))
			if err == nil {
				err = setSysctl(family, to, key, strings.TrimSpace(string(value)))
			} else {
				err = nil
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ignoreAdvertisements has a device of OVN's take its routers, addresses and routes from Weft alone. OVN lets router
// advertisements pass before every ACL, and any pod may send one: the kernel would take the pod for a router.
func ignoreAdvertisements(device string) error {
	var errs []error
	for _, key := range []string{"accept_ra", "autoconf", "accept_redirects"} {
		errs = append(errs, setSysctl("ipv6", device, key, "0"))
	}
	return errors.Join(errs...)
}

// setSysctl writes only what is not so already.
func setSysctl(family, device, key, value string) error {
	path := sysctlPath(family, device, key)
	now, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(now)) == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s: %w", path, err)
	}
	return nil
}
