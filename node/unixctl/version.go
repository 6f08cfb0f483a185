package unixctl

import "strings"

// VersionCommand is what every daemon answers with its version.
const VersionCommand = "version"

// Version is the number in an answer to [VersionCommand], such as "ovs-vswitchd (Open vSwitch) 3.5.0"; "" of one that
// has none.
func Version(answer string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	words := strings.Fields(first)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}
