package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of OVN's commands that doors run. The name of what is got is that of a program, and its arguments are in the
// query of the request.
const (
	// OVNCommandResource is of the cluster.
	OVNCommandResource = "ovncommands"
	OVNCommandKind     = "OVNCommand"
	// OVNCommandRole is the ClusterRole that lets users get them. An administrator binds it.
	OVNCommandRole = "weft-observe-ovn"
	// OVNCommandArgument is the key in the query of each argument of the program, in order.
	OVNCommandArgument = "argument"

	// NorthboundCommand is ovn-nbctl, and SouthboundCommand is ovn-sbctl.
	NorthboundCommand = "nbctl"
	SouthboundCommand = "sbctl"
)

// OVNCommand is what a program of OVN has answered that a door has run. Its name is nbctl or sbctl.
type OVNCommand struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Arguments is the options, the command and its arguments.
	Arguments []string `json:"arguments"`
	// ExitCode is the exit code of the program, or -1 if a signal has ended it, such as that of the door.
	ExitCode int `json:"exitCode"`
	// Output is what it has printed.
	Output string `json:"output"`
	// Errors is what it has printed as errors, at most 64 KiB and whether there was more, and why the door has ended it,
	// if it has.
	Errors string `json:"errors,omitempty"`
	// Truncated is true if the output was longer than 4 MiB, and is cut there.
	Truncated bool `json:"truncated,omitempty"`
}
