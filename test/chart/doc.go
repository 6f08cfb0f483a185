// Package chart tests the Helm chart of cmd/release/chart by Helm's own code. It is a module of its own, as nothing
// else of Weft needs that.
package chart
