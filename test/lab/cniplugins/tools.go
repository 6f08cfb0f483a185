//go:build tools

// Package tools keeps the standard plugin that containerd asks for beside weft's own in go.mod.
package tools

import _ "github.com/containernetworking/plugins/plugins/main/loopback"
