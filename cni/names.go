package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// HostInterface is the name of an attachment's device on the node: the same whenever it is asked,
// within the 15 characters of Linux and of OVS, and with 44 bits of the attachment's hash.
func HostInterface(attachment Attachment) string {
	sum := sha256.Sum256([]byte(attachment.String()))
	return "weft" + hex.EncodeToString(sum[:])[:11]
}

var hostInterface = regexp.MustCompile(`^weft[0-9a-f]{11}$`)

// IsHostInterface recognises the names that [HostInterface] gives.
func IsHostInterface(name string) bool { return hostInterface.MatchString(name) }
