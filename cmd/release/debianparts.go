package main

import "fmt"

// Programs of Debian's packages that images have: a door has OVN's answer its users, and the agent has that of Open
// vSwitch write flows.
var (
	doorPrograms  = []string{"usr/bin/ovn-trace", "usr/bin/ovn-nbctl", "usr/bin/ovn-sbctl"}
	agentPrograms = []string{"usr/bin/ovs-ofctl"}
)

// debianParts are what a release has of Debian's packages for one architecture: in images for doors and agents, and as
// an OVN of its own.
type debianParts struct{ door, agent, ovn closure }

// newDebianParts takes them out of packages, of each of which something is taken.
func newDebianParts(packages unpacked) (debianParts, error) {
	var parts debianParts
	for _, part := range []struct {
		closure        *closure
		programs, data []string
	}{{&parts.door, doorPrograms, nil}, {&parts.agent, agentPrograms, nil}, {&parts.ovn, ovnPrograms, ovnSchemas}} {
		var err error
		if *part.closure, err = packages.closure(part.programs, part.data...); err != nil {
			return debianParts{}, err
		}
	}
	return parts, packages.checkUse(parts.door, parts.agent, parts.ovn)
}

// newDebianPartsOf are those for all architectures.
func newDebianPartsOf(all map[string]unpacked) (map[string]debianParts, error) {
	parts := map[string]debianParts{}
	for architecture, packages := range all {
		var err error
		if parts[architecture], err = newDebianParts(packages); err != nil {
			return nil, fmt.Errorf("packages of Debian for %s: %w", architecture, err)
		}
	}
	return parts, nil
}
