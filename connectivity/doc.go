// Package connectivity tests a cluster's network as its users meet it: it runs pods of its own on chosen nodes, has
// them ask each other in every way, and says which ways have passed.
//
// The pods run netexec, of the image agnhost of Kubernetes' own tests. Its path /dial makes a request on behalf of
// whoever asks and answers with JSON, so pods of Linux and of Windows nodes are asked alike, without a shell. The API
// server's proxy of pods carries the questions. The package knows nothing of OVN, and needs a kubeconfig alone.
package connectivity
