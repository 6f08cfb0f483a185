package ovsdb

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Endpoint is one address of a database server.
type Endpoint struct {
	// Scheme is "unix", "tcp" or "ssl".
	Scheme string
	// Address is a path after unix, and host:port after tcp and ssl.
	Address string
}

func (e Endpoint) String() string { return e.Scheme + ":" + e.Address }

// ParseEndpoints reads a list as OVN writes it: "unix:/run/ovn/ovnnb_db.sock" or
// "ssl:10.0.0.1:6641,ssl:[fd00::1]:6641".
func ParseEndpoints(list string) ([]Endpoint, error) {
	var endpoints []Endpoint
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		scheme, address, _ := strings.Cut(text, ":")
		switch scheme {
		case "unix":
			if address == "" {
				return nil, fmt.Errorf("endpoint %q names no path after unix:, such as /run/ovn/ovnnb_db.sock", text)
			}
		case "tcp", "ssl":
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("endpoint %q: HOST:PORT must follow %s:, an IPv6 address in brackets", text, scheme)
			}
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
				return nil, fmt.Errorf("endpoint %q: host %q and port %q are not an address to connect to", text, host, port)
			}
		default:
			return nil, fmt.Errorf("endpoint %q: must begin with unix:, tcp: or ssl: and go on with an address", text)
		}
		endpoints = append(endpoints, Endpoint{scheme, address})
	}
	return endpoints, nil
}
