// Package cluster runs a cluster's controllers, its doors and an agent by the files of a release alone: by the Helm
// chart and the images, on the nodes of a lab. `make chart-test` makes the release, and runs it.
package cluster
