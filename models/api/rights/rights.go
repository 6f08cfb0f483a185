// Package rights holds what Weft's parts may do in Kubernetes, as manifests: the one place of it, for Ansible's roles
// and for those who apply them by hand.
package rights

import _ "embed"

// Of each part: RBAC, the least that it needs. Users are weft:controller, weft:chassis and weft:observe, and the
// kubelets' group.
var (
	//go:embed controller.yaml
	Controller string
	//go:embed node.yaml
	Node string
	//go:embed chassis.yaml
	Chassis string
	// Observe has the doors' namespace and Service, too.
	//
	//go:embed observe/rights.yaml
	Observe string
	// APIService has the API server ask the doors. It lacks spec.caBundle, the authority of the doors' certificates.
	//
	//go:embed observe/apiservice.yaml
	APIService string
	// Admission policies: what nobody else may write.
	//
	//go:embed admission.yaml
	Admission string
)
