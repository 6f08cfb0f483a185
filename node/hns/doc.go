// Package hns is the Windows Host Networking Service as the agent uses it. Calls of HNS can hang for
// ever (antrea issues 650 and 4702), so that each has a deadline, and one that hangs holds up nobody
// else. What the service itself is stands behind [Service]: on Windows it is hcsshim.
package hns
