//go:build tools

// Package tools keeps the conformance tests of ClusterNetworkPolicy in go.mod.
package tools

import (
	_ "sigs.k8s.io/network-policy-api/conformance"
	_ "sigs.k8s.io/network-policy-api/conformance/tests"
	_ "sigs.k8s.io/network-policy-api/conformance/utils/flags"
)
