// Package attach gives pods their ports. The [Attacher] serves the CNI plugin, attends to devices that come after ADD,
// and removes what nobody will ask to delete.
//
//	add         the CNI verbs
//	pending     ports whose device or flows have not come yet
//	sweep       GC, and what a node finds by itself that is nobody's
//	sandboxes   one piece of work at a time on an attachment
//	results     what the container runtime keeps and cannot read after a power failure
//	records     whose a device is, for the day when the database is lost
//	inspect     why a port has no flows
//
// What a pod has stands in its interface's row. The package imports platform, openvswitch, pods and health, and takes
// of a system no more than [platform.Endpoints].
package attach
