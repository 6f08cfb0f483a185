package hns

import (
	"encoding/json"
	"slices"
	"time"
)

var namespaceTypes = []string{"", "Host", "HostDefault", "Guest", "GuestDefault"}

func (s *Service) createNamespace(id, body string) (string, Error) {
	n := &Namespace{}
	if json.Unmarshal([]byte(body), n) != nil || !slices.Contains(namespaceTypes, n.Type) {
		return "", ErrInvalidJSON
	}
	return s.addNamespace(newID(id, n.ID), n.Type, "")
}

func (s *Service) addNamespace(id, kind, netns string) (string, Error) {
	if s.namespace(id) != nil {
		return "", ErrObjectExists
	}
	s.objects.Compartments++
	s.objects.Namespaces = append(s.objects.Namespaces, &Namespace{
		ID: id, NamespaceID: s.objects.Compartments, Type: kind, Resources: []Resource{}, SchemaVersion: schemaVersion,
		Netns: netns,
	})
	return id, 0
}

func (s *Service) modifyNamespace(n *Namespace, m modification) Error {
	if m.ResourceType != "Endpoint" {
		return ErrRequestUnsupported
	}
	var settings struct{ EndpointID string }
	if json.Unmarshal(m.Settings, &settings) != nil {
		return ErrInvalidJSON
	}
	e := s.endpoint(settings.EndpointID)
	if e == nil {
		return ErrEndpointNotFound
	}
	switch m.RequestType {
	case "Add":
		return s.attach(n, e)
	case "Remove":
		if !sameID(e.HostComputeNamespace, n.ID) {
			return ErrElementNotFound
		}
		s.detach(n, e)
		return 0
	}
	return ErrRequestUnsupported
}

// attach puts an endpoint into a namespace. In one whose container runs the vNIC comes at once, else
// with the container.
func (s *Service) attach(n *Namespace, e *Endpoint) Error {
	switch {
	case sameID(e.HostComputeNamespace, n.ID):
		return ErrEndpointAttached
	case e.HostComputeNamespace != "":
		return ErrEndpointNamespaceExists
	}
	e.HostComputeNamespace = n.ID
	n.Resources = append(n.Resources, Resource{Type: kindEndpoint, Data: ResourceData{e.ID}})
	if n.Started {
		s.delay(e.ID)
	}
	return 0
}

func (s *Service) detach(n *Namespace, e *Endpoint) {
	e.HostComputeNamespace = ""
	n.Resources = slices.DeleteFunc(n.Resources, func(r Resource) bool {
		return r.Type == kindEndpoint && sameID(r.Data.ID, e.ID)
	})
}

// delay holds back the vNICs of endpoints for as long as the fault delay-vnic says.
func (s *Service) delay(endpoints ...string) {
	wait := s.faults.vnicDelay()
	if wait == 0 {
		return
	}
	for _, id := range endpoints {
		s.late[id] = true
	}
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range endpoints {
			delete(s.late, id)
		}
		s.keep()
	})
}
