package hns

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// hcn is the second version of the interface: functions on handles, and documents in JSON.
type hcn struct {
	system  *system
	handles map[uint64]handle
	last    uint64
}

// handle of an object that a caller has open.
type handle struct{ kind, id string }

func newHCN(s *system) *hcn { return &hcn{system: s, handles: map[uint64]handle{}} }

// call does what the function of that name does.
func (h *hcn) call(function, id string, number uint64, body string) Reply {
	verb, kind, known := parseFunction(function)
	if !known {
		return Reply{Status: ErrNotImplemented}
	}
	switch verb {
	case "Enumerate":
		return h.enumerate(kind, body)
	case "Open":
		return h.open(kind, id)
	case "Close":
		delete(h.handles, number)
		return Reply{}
	case "Query":
		return h.query(kind, number)
	case "Create":
		return h.create(kind, id, number, body)
	case "Modify":
		return h.modify(kind, number, body)
	case "Delete":
		return h.changed(h.system.objects.remove(kind, id))
	}
	return Reply{Status: ErrNotImplemented}
}

// parseFunction takes HcnEnumerateNetworks, HcnQueryNetworkProperties and the like apart.
func parseFunction(function string) (verb, kind string, known bool) {
	rest, isHCN := strings.CutPrefix(function, "Hcn")
	if !isHCN {
		return "", "", false
	}
	for _, kind := range []string{kindNetwork, kindEndpoint, kindNamespace, kindLoadBalancer, kindSdnRoute} {
		for verb, end := range map[string]string{"Enumerate": "s", "Open": "", "Close": "", "Query": "Properties",
			"Create": "", "Modify": "", "Delete": ""} {
			if rest == verb+kind+end {
				return verb, kind, true
			}
		}
	}
	return "", "", false
}

// failure is an error as HCN reports it: the HRESULT and a text beside it.
func failure(err Error) Reply {
	text, _ := json.Marshal(map[string]any{"Success": false, "Error": err.Error(), "ErrorCode": uint32(err)})
	s := string(text)
	return Reply{Status: err, Err: &s}
}

func output(v any) Reply {
	text, err := json.Marshal(v)
	if err != nil {
		return failure(ErrGeneral)
	}
	s := string(text)
	return Reply{Out: &s}
}

// changed keeps what a call has changed, unless it has failed.
func (h *hcn) changed(err Error) Reply {
	if err != 0 {
		return failure(err)
	}
	h.system.keep()
	return Reply{}
}

func (h *hcn) opened(kind, id string) Reply {
	h.last++
	h.handles[h.last] = handle{kind, id}
	return Reply{Handle: h.last}
}

func (h *hcn) open(kind, id string) Reply {
	if h.system.objects.find(kind, id) == nil {
		return failure(notFound(kind))
	}
	return h.opened(kind, id)
}

func (h *hcn) query(kind string, number uint64) Reply {
	object := h.system.objects.find(kind, h.handles[number].id)
	if object == nil || h.handles[number].kind != kind {
		return failure(notFound(kind))
	}
	return output(object)
}

// enumerate returns GUIDs. A query's Filter is itself JSON: fields that must be equal.
func (h *hcn) enumerate(kind, body string) Reply {
	var query struct{ Filter string }
	filter := map[string]any{}
	if body != "" && json.Unmarshal([]byte(body), &query) != nil {
		return failure(ErrInvalidJSON)
	}
	if query.Filter != "" && json.Unmarshal([]byte(query.Filter), &filter) != nil {
		return failure(ErrInvalidJSON)
	}
	ids := []string{}
	for object := range h.system.objects.all(kind) {
		if matches(object, filter) {
			ids = append(ids, object.guid())
		}
	}
	return output(ids)
}

func matches(object any, filter map[string]any) bool {
	if len(filter) == 0 {
		return true
	}
	text, err := json.Marshal(object)
	if err != nil {
		return false
	}
	fields := map[string]any{}
	if json.Unmarshal(text, &fields) != nil {
		return false
	}
	for name, want := range filter {
		if name == "VirtualNetwork" { // its name in the first version, which hcsshim asks by
			name = "HostComputeNetwork"
		}
		if !strings.EqualFold(fmt.Sprint(fields[name]), fmt.Sprint(want)) {
			return false
		}
	}
	return true
}

func (h *hcn) create(kind, id string, number uint64, body string) Reply {
	var made string
	var err Error
	switch kind {
	case kindNetwork:
		made, err = h.createNetwork(id, body)
	case kindEndpoint:
		made, err = h.createEndpoint(id, h.handles[number], body)
	case kindNamespace:
		made, err = h.createNamespace(id, body)
	case kindLoadBalancer:
		made, err = h.createLoadBalancer(id, body)
	default:
		return Reply{Status: ErrNotImplemented}
	}
	if err != 0 {
		return failure(err)
	}
	h.system.keep()
	return h.opened(kind, made)
}

func (h *hcn) createNetwork(id, body string) (string, Error) {
	n := &Network{}
	if json.Unmarshal([]byte(body), n) != nil {
		return "", ErrInvalidJSON
	}
	return h.system.addNetwork(id, n)
}

func (h *hcn) createEndpoint(id string, parent handle, body string) (string, Error) {
	e := &Endpoint{}
	if json.Unmarshal([]byte(body), e) != nil {
		return "", ErrInvalidJSON
	}
	if parent.kind == kindNetwork {
		e.HostComputeNetwork = parent.id
	}
	return h.system.addEndpoint(id, e)
}

var namespaceTypes = []string{"", "Host", "HostDefault", "Guest", "GuestDefault"}

func (h *hcn) createNamespace(id, body string) (string, Error) {
	n := &Namespace{}
	if json.Unmarshal([]byte(body), n) != nil || !slices.Contains(namespaceTypes, n.Type) {
		return "", ErrInvalidJSON
	}
	return h.system.objects.addNamespace(newID(id, n.ID), n.Type, "")
}

func (h *hcn) createLoadBalancer(id, body string) (string, Error) {
	l := &LoadBalancer{}
	if json.Unmarshal([]byte(body), l) != nil {
		return "", ErrInvalidJSON
	}
	return h.system.objects.addLoadBalancer(id, l)
}

// modification is the settings of the HcnModify functions.
type modification struct {
	ResourceType string
	RequestType  string
	Settings     json.RawMessage
}

func (h *hcn) modify(kind string, number uint64, body string) Reply {
	var m modification
	if json.Unmarshal([]byte(body), &m) != nil {
		return failure(ErrInvalidJSON)
	}
	objects := &h.system.objects
	switch o := objects.find(kind, h.handles[number].id).(type) {
	case *Network:
		return h.changed(o.modify(m))
	case *Endpoint:
		return h.changed(objects.Endpoints.modify(o, m))
	case *Namespace:
		return h.changed(h.modifyNamespace(o, m))
	case *LoadBalancer:
		return failure(ErrRequestUnsupported)
	}
	return failure(notFound(kind))
}

// modifyNamespace attaches an endpoint or detaches it.
func (h *hcn) modifyNamespace(n *Namespace, m modification) Error {
	if m.ResourceType != "Endpoint" {
		return ErrRequestUnsupported
	}
	var settings struct{ EndpointID string }
	if json.Unmarshal(m.Settings, &settings) != nil {
		return ErrInvalidJSON
	}
	e := h.system.objects.endpoint(settings.EndpointID)
	if e == nil {
		return ErrEndpointNotFound
	}
	switch m.RequestType {
	case "Add":
		return h.system.attach(n, e)
	case "Remove":
		if !sameID(e.HostComputeNamespace, n.ID) {
			return ErrElementNotFound
		}
		h.system.objects.detach(n, e)
		return 0
	}
	return ErrRequestUnsupported
}
