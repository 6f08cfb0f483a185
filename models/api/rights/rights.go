// Package rights holds what Weft's parts may do in Kubernetes, as manifests: the one place of it, for Ansible's roles and for
// those who apply them by hand.
package rights

import _ "embed"

// Of each part: RBAC, the least that it needs. Users are weft:controller and weft:chassis, and the kubelets' group.
var (
	//go:embed controller.yaml
	Controller string
	//go:embed node.yaml
	Node string
	//go:embed chassis.yaml
	Chassis string
	// Admission policies: what nobody else may write.
	//
	//go:embed admission.yaml
	Admission string
)
