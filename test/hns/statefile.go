package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// kept wraps the objects with the fields that HCN does not show.
type kept struct {
	Networks      []keptNetwork
	Endpoints     []keptEndpoint
	Namespaces    []keptNamespace
	LoadBalancers []*LoadBalancer
	Compartments  uint32
}

type keptNetwork struct {
	*Network
	KeptAdapter    string
	KeptExtensions []Extension
	KeptHost       HostConfig
	KeptVNIC       ManagementVNIC
	KeptRSC        bool
}

type keptEndpoint struct {
	*Endpoint
	KeptMTU int
}

type keptNamespace struct {
	*Namespace
	KeptNetns   string
	KeptStarted bool
}

// stateFile is the path of the file that keeps the objects; empty: nothing keeps them.
type stateFile string

// load returns the objects that were saved last, or those of a new machine.
func (f stateFile) load() (objects, error) {
	o := objects{Compartments: hostCompartment}
	if f == "" {
		return o, nil
	}
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("read the state of HNS: %w", err)
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return o, fmt.Errorf("read the state of HNS in %s (remove the file to begin anew): %w", f, err)
	}
	for _, n := range k.Networks {
		n.Adapter, n.Extensions, n.Host, n.VNIC, n.RSC = n.KeptAdapter, n.KeptExtensions, n.KeptHost, n.KeptVNIC, n.KeptRSC
		if n.Adapter != "" && n.VNIC == (ManagementVNIC{}) { // a former version's
			n.VNIC = ManagementVNIC{Name: n.Adapter, Device: ManagementDevice(n.Adapter)}
		}
		o.Networks = append(o.Networks, n.Network)
	}
	for _, e := range k.Endpoints {
		e.MTU = e.KeptMTU
		o.Endpoints = append(o.Endpoints, e.Endpoint)
	}
	for _, n := range k.Namespaces {
		n.Netns, n.Started = n.KeptNetns, n.KeptStarted
		o.Namespaces = append(o.Namespaces, n.Namespace)
	}
	o.LoadBalancers, o.Compartments = k.LoadBalancers, max(k.Compartments, hostCompartment)
	return o, nil
}

// save writes the objects so that a reader sees the old or the new ones.
func (f stateFile) save(o objects) error {
	if f == "" {
		return nil
	}
	k := kept{LoadBalancers: o.LoadBalancers, Compartments: o.Compartments}
	for _, n := range o.Networks {
		k.Networks = append(k.Networks, keptNetwork{n, n.Adapter, n.Extensions, n.Host, n.VNIC, n.RSC})
	}
	for _, e := range o.Endpoints {
		k.Endpoints = append(k.Endpoints, keptEndpoint{e, e.MTU})
	}
	for _, n := range o.Namespaces {
		k.Namespaces = append(k.Namespaces, keptNamespace{n, n.Netns, n.Started})
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(string(f)+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(string(f)+".new", string(f))
}
