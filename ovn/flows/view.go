package flows

import (
	"slices"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// View is what of flows a user may see.
type View struct {
	// Namespace is the one whose flows are asked for; "" for all.
	Namespace string
	// May says whether the user may list flows of a namespace, and of "" those of all.
	May func(namespace string) bool
}

// Has says whether a flow is of the view's namespace: whether one of its ends or its Service is.
func (v *View) Has(f *api.Flow) bool {
	return v.Namespace == "" || f.Source.Namespace == v.Namespace || f.Destination.Namespace == v.Namespace ||
		f.Service != nil && f.Service.Namespace == v.Namespace
}

// Namespaces are those, beside the view's own, of which the flows tell: what [View.May] will be asked.
func (v *View) Namespaces(flows []api.Flow) []string {
	seen := map[string]struct{}{v.Namespace: {}}
	var found []string
	add := func(namespace string) {
		if _, before := seen[namespace]; !before {
			seen[namespace] = struct{}{}
			found = append(found, namespace)
		}
	}
	for i := range flows {
		add(flows[i].Source.Namespace)
		add(flows[i].Destination.Namespace)
		if s := flows[i].Service; s != nil {
			add(s.Namespace)
		}
	}
	slices.Sort(found)
	return found
}

// Cut leaves of a flow what the user may see. Of an end elsewhere that is its address alone. A Service elsewhere has
// one address, and which of its endpoints has answered is not told.
func (v *View) Cut(f api.Flow) api.Flow {
	if v.May("") {
		return f
	}
	f.Nodes = nil
	if v.hidden(&f.Source) {
		f.Source = bare(f.Source.Address, f.Source.Port)
		f.SeenAs = "" // a router's address tells where it came in
	}
	hiddenService := f.Service != nil && !v.sees(f.Service.Namespace)
	switch hidden := v.hidden(&f.Destination); {
	case hidden && hiddenService:
		f.Destination, f.Service = bare(f.Service.Address, f.Service.Port), nil
	case hidden:
		f.Destination = bare(f.Destination.Address, f.Destination.Port)
	case hiddenService:
		f.Service = nil
	}
	return f
}

// hidden says whether the user may know no more of an end than its address. What is outside has no name.
func (v *View) hidden(e *api.FlowEnd) bool { return e.Kind != api.OutsideEnd && !v.sees(e.Namespace) }

// sees says whether the user may know objects of a namespace. Nodes and routers are of none.
func (v *View) sees(namespace string) bool {
	return namespace != "" && namespace == v.Namespace || v.May(namespace)
}

func bare(address string, port int) api.FlowEnd {
	return api.FlowEnd{Kind: api.AddressEnd, Address: address, Port: port}
}
