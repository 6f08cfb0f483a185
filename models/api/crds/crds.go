// Package crds holds the CustomResourceDefinitions of the API group weft.net.
package crds

import "embed"

// Files are the manifests, one a kind.
//
//go:embed *.yaml
var Files embed.FS
