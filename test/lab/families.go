package lab

// Families are those of a cluster's addresses.
type Families string

// The families that a cluster can have.
const (
	IPv4 Families = "ipv4"
	IPv6 Families = "ipv6"
	Dual Families = "dual" // both, IPv4 first
)

// pick returns the values of the cluster's families, the first one first.
func (f Families) pick(v4, v6 string) []string {
	var picked []string
	if f != IPv6 {
		picked = append(picked, v4)
	}
	if f != IPv4 {
		picked = append(picked, v6)
	}
	return picked
}
