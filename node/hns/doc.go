// Package hns is the Windows Host Networking Service as the agent uses it: every call has a deadline.
package hns
