package hns

import "strings"

// noDataPlane has adapters of any name that begins like one of Windows's, and makes nothing.
type noDataPlane struct{}

func (noDataPlane) Adapter(name string) (string, HostConfig, error) {
	if name == "" {
		name = "Ethernet"
	}
	if !strings.HasPrefix(name, "Ethernet") {
		return "", HostConfig{}, ErrAdapterNotFound
	}
	return name, HostConfig{MAC: "00:15:5d:00:00:01"}, nil
}

func (noDataPlane) Apply([]Switch, []VNIC) error { return nil }

func (noDataPlane) Devices() any { return nil }
