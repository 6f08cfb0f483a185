package conntrack

import (
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// Parse reads a line of dpctl/dump-conntrack, with or without statistics, and the number of the entry's zone.
//
//	tcp,orig=(src=10.244.0.3,dst=10.96.0.10,sport=40000,dport=80),reply=(src=10.244.1.4,dst=10.244.0.3,sport=8080,
//	dport=40000),zone=5,labels=0x…,protoinfo=(state=ESTABLISHED)
func Parse(line string) (connection contract.Connection, zone uint16, err error) {
	protocol, rest, _ := strings.Cut(line, ",")
	c := contract.Connection{Protocol: protocol}
	if protocol == "" || strings.ContainsAny(protocol, "=()") {
		return contract.Connection{}, 0, fmt.Errorf("%.200q does not begin with a protocol", line)
	}
	for key, value := range attributes(rest) {
		switch key {
		case "orig":
			if c.Original, err = parseDirection(value); err == nil {
				c.ID, err = parseID(value)
			}
		case "reply":
			c.Reply, err = parseDirection(value)
		case "zone":
			zone, err = number16(value)
		case "protoinfo":
			c.State = parseState(value)
		}
		if err != nil {
			return contract.Connection{}, 0, fmt.Errorf("%.200q: %s: %w", line, key, err)
		}
	}
	if !c.Original.Source.IsValid() || !c.Reply.Source.IsValid() {
		return contract.Connection{}, 0, fmt.Errorf("%.200q lacks one of its directions", line)
	}
	return c, zone, nil
}

// attributes are the parts KEY=VALUE of a list with commas. What is in parentheses is one value, without these.
func attributes(text string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for text != "" {
			key, value, ok := strings.Cut(text, "=")
			if !ok {
				return
			}
			if inner, nested := strings.CutPrefix(value, "("); nested {
				value, text, _ = strings.Cut(inner, ")")
				text = strings.TrimPrefix(text, ",")
			} else {
				value, text, _ = strings.Cut(value, ",")
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// parseDirection reads the tuple of a direction and what it has counted.
func parseDirection(text string) (d contract.Direction, err error) {
	var source, destination netip.Addr
	var sourcePort, destinationPort uint16
	for key, value := range attributes(text) {
		switch key {
		case "src":
			source, err = netip.ParseAddr(value)
		case "dst":
			destination, err = netip.ParseAddr(value)
		case "sport":
			sourcePort, err = number16(value)
		case "dport":
			destinationPort, err = number16(value)
		case "packets":
			d.Packets, err = strconv.ParseUint(value, 10, 64)
		case "bytes":
			d.Bytes, err = strconv.ParseUint(value, 10, 64)
		}
		if err != nil {
			return contract.Direction{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	if !source.IsValid() || source.BitLen() != destination.BitLen() {
		return contract.Direction{}, fmt.Errorf("%q has no pair of addresses of one family", text)
	}
	d.Source = netip.AddrPortFrom(source, sourcePort)
	d.Destination = netip.AddrPortFrom(destination, destinationPort)
	return d, nil
}

// parseID reads the identifier of an echo out of a tuple.
func parseID(text string) (uint16, error) {
	for key, value := range attributes(text) {
		if key == "id" {
			return number16(value)
		}
	}
	return 0, nil
}

// parseState reads the state of a connection: of TCP it is that of both ends together.
func parseState(text string) string {
	for key, value := range attributes(text) {
		if key == "state" {
			return value
		}
	}
	return ""
}

func number16(text string) (uint16, error) {
	number, err := strconv.ParseUint(text, 10, 16)
	return uint16(number), err
}
