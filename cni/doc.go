// Package cni is the Container Network Interface (https://www.cni.dev/docs/spec/) as weft speaks
// it: the plugin that the container runtime runs, the agent's side that answers it, and the
// protocol between the two. The plugin decides nothing: it sends a verb with its parameters and
// prints what the agent says, so that a node has one process that knows its pods.
//
// The protocol is HTTP over a local stream: POST /v1/VERB with a [Request] as JSON; 200 with a
// result of CNI 1.1.0 (ADD) or nothing, any other status with a CNI error object.
package cni
