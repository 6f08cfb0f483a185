// Package records reads what earlier terms of controllers have decided out of the Northbound's rows: the addresses of
// pods, the numbers and subnets of nodes, and the numbers of EgressIPs' routers.
package records
