package flows

import (
	"fmt"
	"net"
	"strconv"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// EndText is an end by its name, if it has one, and its port.
func EndText(e *api.FlowEnd) string {
	var name string
	switch e.Kind {
	case api.PodEnd:
		name = e.Namespace + "/" + e.Name
	case api.NodeEnd:
		name = "node/" + e.Name
	case api.GatewayEnd:
		name = "gateway/" + e.Name
	case api.OutsideEnd:
		return AddressText(e.Address, e.Port) + " (outside)"
	default:
		return AddressText(e.Address, e.Port)
	}
	if e.Port == 0 {
		return name
	}
	return name + ":" + strconv.Itoa(e.Port)
}

// ServiceText is a Service by its name, or by its address if it has none now; "" without one.
func ServiceText(s *api.FlowService) string {
	switch {
	case s == nil:
		return ""
	case s.Name == "":
		return AddressText(s.Address, s.Port)
	}
	return fmt.Sprintf("%s/%s:%d", s.Namespace, s.Name, s.Port)
}

// AddressText is an address with its port, if there is one.
func AddressText(address string, port int) string {
	if port == 0 {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(port))
}
