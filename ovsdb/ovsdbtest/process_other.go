//go:build !linux

package ovsdbtest

import "syscall"

// dieWithParent is Linux's alone: elsewhere a server may outlive a test that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
