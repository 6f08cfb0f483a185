package hns

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newService(t *testing.T) *Service {
	t.Helper()
	s, err := New(Config{StateFile: filepath.Join(t.TempDir(), "state.json")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// must is a call that has to succeed. Of one that creates it returns the GUID.
func must(t testing.TB, s *Service, function, id string, handle uint64, body string) string {
	t.Helper()
	reply := s.Call(function, id, handle, body)
	if reply.Status != 0 {
		t.Fatalf("%s %s %s: %v", function, id, body, reply.Status)
	}
	if !strings.HasPrefix(function, "HcnCreate") {
		return ""
	}
	s.system.mu.Lock()
	defer s.system.mu.Unlock()
	return s.hcn.handles[reply.Handle].id
}

func open(t testing.TB, s *Service, kind, id string) uint64 {
	t.Helper()
	reply := s.Call("HcnOpen"+kind, id, 0, "")
	if reply.Status != 0 {
		t.Fatalf("open %s %s: %v", kind, id, reply.Status)
	}
	return reply.Handle
}

func query(t testing.TB, s *Service, kind, id string, into any) {
	t.Helper()
	reply := s.Call("HcnQuery"+kind+"Properties", "", open(t, s, kind, id), "{}")
	if reply.Status != 0 {
		t.Fatalf("query %s %s: %v", kind, id, reply.Status)
	}
	if err := json.Unmarshal([]byte(*reply.Out), into); err != nil {
		t.Fatal(err)
	}
}

func control(t testing.TB, s *Service, words ...string) string {
	t.Helper()
	text, err := s.Control(words)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return text
}

// v1 is an HNSCall that has to succeed; it returns its output.
func v1(t testing.TB, s *Service, method, path, body string) string {
	t.Helper()
	text, failure := tryV1(t, s, method, path, body)
	if failure != "" {
		t.Fatalf("%s %s %s: %s", method, path, body, failure)
	}
	return text
}

func tryV1(t testing.TB, s *Service, method, path, body string) (text, failure string) {
	t.Helper()
	reply := s.Call("HNSCall", "", 0, method+"\n"+path+"\n"+body)
	if reply.Status != 0 {
		t.Fatalf("%s %s: %v", method, path, reply.Status)
	}
	var answer struct {
		Success bool
		Error   string
		Output  json.RawMessage
	}
	if err := json.Unmarshal([]byte(*reply.Out), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Success == (answer.Error != "") {
		t.Fatalf("success is %v with the error %q", answer.Success, answer.Error)
	}
	return string(answer.Output), answer.Error
}

func transparent(name, adapter string) string {
	return fmt.Sprintf(`{"Name":%q,"Type":"Transparent","Policies":[{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":%q}}]}`, name, adapter)
}

func membership(endpoint, request string) string {
	return fmt.Sprintf(`{"ResourceType":"Endpoint","RequestType":%q,"Settings":{"EndpointId":%q}}`, request, endpoint)
}

func attach(t testing.TB, s *Service, namespace, endpoint string) {
	t.Helper()
	must(t, s, "HcnModifyNamespace", "", open(t, s, "Namespace", namespace), membership(endpoint, "Add"))
}

func detach(t testing.TB, s *Service, namespace, endpoint string) {
	t.Helper()
	must(t, s, "HcnModifyNamespace", "", open(t, s, "Namespace", namespace), membership(endpoint, "Remove"))
}

func TestWhatIsRefused(t *testing.T) {
	s := newService(t)
	network := must(t, s, "HcnCreateNetwork", "", 0, `{"Name":"weft","Type":"Transparent","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.0.0.0/24"}]}],
		"Policies":[{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"Ethernet"}}]}`)
	endpoint := must(t, s, "HcnCreateEndpoint", "", open(t, s, "Network", network),
		`{"Name":"pod","IpConfigurations":[{"IpAddress":"10.0.0.2","PrefixLength":24}],
		"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6,"InternalPort":80,"ExternalPort":8080}}]}`)
	first := must(t, s, "HcnCreateNamespace", "", 0, `{"Type":"HostDefault"}`)
	second := must(t, s, "HcnCreateNamespace", "", 0, `{"Type":"HostDefault"}`)
	attach(t, s, first, endpoint)
	const nobody = "99999999-9999-9999-9999-999999999999"

	inNetwork, inFirst, inSecond := open(t, s, "Network", network), open(t, s, "Namespace", first),
		open(t, s, "Namespace", second)
	for _, test := range []struct {
		name     string
		function string
		id       string
		handle   uint64
		body     string
		want     Error
	}{
		{"network: its name is taken", "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet 2"), ErrNetworkExists},
		{"network: its GUID is taken", "HcnCreateNetwork", network, 0, transparent("other", "Ethernet 2"), ErrNetworkExists},
		{"network: no such adapter", "HcnCreateNetwork", "", 0, transparent("other", "Wi-Fi"), ErrAdapterNotFound},
		{"network: the adapter has a switch", "HcnCreateNetwork", "", 0, transparent("other", "Ethernet"),
			ErrAdapterNotFound},
		{"network: no such type", "HcnCreateNetwork", "", 0, `{"Name":"x","Type":"Opaque"}`, ErrInvalidNetworkType},
		{"network: no JSON", "HcnCreateNetwork", "", 0, `{`, ErrInvalidJSON},
		{"network: a prefix that is none", "HcnCreateNetwork", "", 0,
			`{"Name":"x","Type":"Private","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.0.0.0"}]}]}`, ErrInvalidIP},
		{"network: open nobody's", "HcnOpenNetwork", nobody, 0, "", ErrNetworkNotFound},
		{"network: delete nobody's", "HcnDeleteNetwork", nobody, 0, "", ErrNetworkNotFound},
		{"endpoint: of no network", "HcnCreateEndpoint", "", 0, `{"Name":"x"}`, ErrNetworkNotFound},
		{"endpoint: its name is taken", "HcnCreateEndpoint", "", inNetwork, `{"Name":"pod"}`, ErrObjectExists},
		{"endpoint: its GUID is taken", "HcnCreateEndpoint", endpoint, inNetwork, `{"Name":"x"}`, ErrObjectExists},
		{"endpoint: an address of no subnet", "HcnCreateEndpoint", "", inNetwork,
			`{"IpConfigurations":[{"IpAddress":"10.9.0.2","PrefixLength":24}]}`, ErrInvalidIP},
		{"endpoint: an address that is taken", "HcnCreateEndpoint", "", inNetwork,
			`{"IpConfigurations":[{"IpAddress":"10.0.0.2","PrefixLength":24}]}`, ErrAddressReserved},
		{"endpoint: a MAC that is none", "HcnCreateEndpoint", "", inNetwork, `{"MacAddress":"0A-58"}`, ErrInvalidEndpoint},
		{"endpoint: a policy of no type", "HcnCreateEndpoint", "", inNetwork, `{"Policies":[{"Type":"Magic"}]}`,
			ErrInvalidPolicyType},
		{"endpoint: a port mapping of no port", "HcnCreateEndpoint", "", inNetwork,
			`{"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6}}]}`, ErrInvalidInternalPort},
		{"endpoint: a port mapping of no protocol", "HcnCreateEndpoint", "", inNetwork,
			`{"Policies":[{"Type":"PortMapping","Settings":{"InternalPort":80}}]}`, ErrInvalidPolicy},
		{"endpoint: a port of the host that is taken", "HcnCreateEndpoint", "", inNetwork,
			`{"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6,"InternalPort":81,"ExternalPort":8080}}]}`,
			ErrPortExists},
		{"endpoint: delete nobody's", "HcnDeleteEndpoint", nobody, 0, "", ErrEndpointNotFound},
		{"endpoint: attach again", "HcnModifyNamespace", "", inFirst, membership(endpoint, "Add"), ErrEndpointAttached},
		{"endpoint: attach elsewhere too", "HcnModifyNamespace", "", inSecond, membership(endpoint, "Add"),
			ErrEndpointNamespaceExists},
		{"endpoint: attach nobody's", "HcnModifyNamespace", "", inFirst, membership(nobody, "Add"), ErrEndpointNotFound},
		{"endpoint: remove from where it is not", "HcnModifyNamespace", "", inSecond, membership(endpoint, "Remove"),
			ErrElementNotFound},
		{"namespace: open nobody's", "HcnOpenNamespace", nobody, 0, "", ErrElementNotFound},
		{"namespace: delete nobody's", "HcnDeleteNamespace", nobody, 0, "", ErrElementNotFound},
		{"namespace: of no type", "HcnCreateNamespace", "", 0, `{"Type":"Moon"}`, ErrInvalidJSON},
		{"load balancer: of nobody's endpoint", "HcnCreateLoadBalancer", "", 0, `{"HostComputeEndpoints":["` + nobody + `"]}`,
			ErrEndpointNotFound},
		{"a handle that was never given", "HcnQueryNetworkProperties", "", 99999, "{}", ErrNetworkNotFound},
		{"a handle of another kind", "HcnQueryEndpointProperties", "", inNetwork, "{}", ErrEndpointNotFound},
		{"SDN routes", "HcnCreateSdnRoute", "", 0, "{}", ErrNotImplemented},
		{"no such function", "HcnPaintNetwork", "", 0, "", ErrNotImplemented},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := control(t, s, "state")
			reply := s.Call(test.function, test.id, test.handle, test.body)
			if reply.Status != test.want {
				t.Errorf("status %08x (%v), want %08x (%v)", uint32(reply.Status), reply.Status, uint32(test.want), test.want)
			}
			if reply.Err != nil && !strings.Contains(*reply.Err, fmt.Sprint(uint32(test.want))) {
				t.Errorf("the text %s does not have the code", *reply.Err)
			}
			if after := control(t, s, "state"); strip(before) != strip(after) {
				t.Errorf("something has changed:\n%s\n%s", before, after)
			}
		})
	}
}

// strip leaves the objects of a state.
func strip(state string) string {
	before, _, _ := strings.Cut(state, `"Calls"`)
	return before
}

func TestAnEndpointsLife(t *testing.T) {
	s := newService(t)
	network := must(t, s, "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet"))
	endpoint := must(t, s, "HcnCreateEndpoint", "{12345678-0000-0000-0000-00000000000A}", 0, `{"Name":"pod","HostComputeNetwork":"`+network+`","MacAddress":"0a:58:0a:f4:00:05",
		"Dns":{"ServerList":["10.96.0.10"],"Search":["svc.cluster.local"]},"IpConfigurations":[{"IpAddress":"10.244.0.5","PrefixLength":24}]}`)
	if endpoint != "12345678-0000-0000-0000-00000000000A" {
		t.Errorf("the endpoint has GUID %s", endpoint)
	}
	const namespace = "11111111-2222-3333-4444-555555555555"
	control(t, s, "namespace", "add", namespace, "/run/netns/pod")
	control(t, s, "namespace", "add", namespace, "/run/netns/pod")
	if _, err := s.Control([]string{"namespace", "add", namespace, "/run/netns/other"}); err == nil {
		t.Error("a namespace has changed its compartment")
	}

	states := []int{}
	see := func() (e Endpoint, n Namespace) {
		t.Helper()
		query(t, s, "Endpoint", endpoint, &e)
		query(t, s, "Namespace", namespace, &n)
		var old endpointV1
		if err := json.Unmarshal([]byte(v1(t, s, "GET", "/endpoints/"+endpoint, "")), &old); err != nil {
			t.Fatal(err)
		}
		states = append(states, old.State)
		return e, n
	}
	e, n := see()
	if e.HostComputeNamespace != "" || len(n.Resources) != 0 || e.MacAddress != "0A-58-0A-F4-00-05" ||
		len(e.DNS.Search) != 1 {
		t.Errorf("new: %+v in %+v", e, n)
	}
	attach(t, s, namespace, endpoint)
	if e, n = see(); e.HostComputeNamespace != namespace || !slices.Equal(n.endpoints(), []string{endpoint}) {
		t.Errorf("attached: %+v in %+v", e, n)
	}
	control(t, s, "start", namespace)
	if _, n = see(); len(n.Resources) != 2 {
		t.Errorf("started: %+v", n)
	}
	detach(t, s, namespace, endpoint)
	if e, n = see(); e.HostComputeNamespace != "" || len(n.endpoints()) != 0 {
		t.Errorf("detached: %+v in %+v", e, n)
	}
	if want := []int{stateCreated, stateCreated, stateAttachedSharing, stateCreated}; !slices.Equal(states, want) {
		t.Errorf("the states were %v, want %v", states, want)
	}
	attach(t, s, namespace, endpoint)
	must(t, s, "HcnDeleteEndpoint", endpoint, 0, "")
	query(t, s, "Namespace", namespace, &n)
	if len(n.endpoints()) != 0 {
		t.Errorf("a deleted endpoint is in %+v", n)
	}
}

func TestWhatSurvives(t *testing.T) {
	for _, test := range []struct {
		name                           string
		happen                         func(t *testing.T, s *Service)
		booted                         bool
		networks, endpoints, namespace int
	}{
		{"HNS starts anew", func(*testing.T, *Service) {}, false, 1, 1, 1},
		{"the machine has booted", func(*testing.T, *Service) {}, true, 1, 0, 0},
		{"the machine is told to have booted", func(t *testing.T, s *Service) { control(t, s, "reboot") }, false, 1, 0, 0},
		{"the network is lost", func(t *testing.T, s *Service) { control(t, s, "fault", "lose-network") }, false, 0, 0, 1},
		{"the endpoints are lost", func(t *testing.T, s *Service) { control(t, s, "fault", "lose-endpoints") }, false, 1, 0,
			1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t)
			network := must(t, s, "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet"))
			v1(t, s, "POST", "/networks/"+network, `{"Extensions":[{"Id":"`+OVSExtension+`","IsEnabled":true}]}`)
			endpoint := must(t, s, "HcnCreateEndpoint", "", open(t, s, "Network", network), `{"Name":"pod"}`)
			control(t, s, "namespace", "add", "11111111-2222-3333-4444-555555555555", "/run/netns/pod")
			attach(t, s, "11111111-2222-3333-4444-555555555555", endpoint)
			test.happen(t, s)
			again, err := New(Config{StateFile: string(s.system.file), Booted: test.booted})
			if err != nil {
				t.Fatal(err)
			}
			o := again.system.objects
			if len(o.Networks) != test.networks || len(o.Endpoints) != test.endpoints || len(o.Namespaces) != test.namespace {
				t.Errorf("%d networks, %d endpoints, %d namespaces", len(o.Networks), len(o.Endpoints), len(o.Namespaces))
			}
			if len(o.Networks) > 0 && (!o.Networks[0].forwards() || o.Networks[0].Adapter != "Ethernet") {
				t.Errorf("the network is %+v", o.Networks[0])
			}
			for _, n := range o.Namespaces {
				if len(n.endpoints()) != test.endpoints {
					t.Errorf("the namespace has %v", n.Resources)
				}
			}
		})
	}
}

func TestExtension(t *testing.T) {
	s := newService(t)
	network := must(t, s, "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet"))
	const enable = `{"Extensions":[{"Id":"{583cc151-73ec-4a6a-8b47-578297ad7623}","IsEnabled":true}]}`
	enabled := func() (is, installed bool) {
		var n networkV1
		if err := json.Unmarshal([]byte(v1(t, s, "GET", "/networks/"+network, "")), &n); err != nil {
			t.Fatal(err)
		}
		for _, e := range n.Extensions {
			if e.ID == OVSExtension {
				return e.IsEnabled, true
			}
		}
		return false, false
	}
	if is, installed := enabled(); is || !installed {
		t.Errorf("new: enabled %v, installed %v", is, installed)
	}
	v1(t, s, "POST", "/networks/"+network, enable)
	if is, _ := enabled(); !is {
		t.Error("it was enabled and is not")
	}
	control(t, s, "fault", "disable-extension")
	if is, _ := enabled(); is {
		t.Error("it was disabled and is not")
	}
	control(t, s, "fault", "no-driver")
	if _, failure := tryV1(t, s, "POST", "/networks/"+network, enable); failure != ErrExtensionNotFound.Error() {
		t.Errorf("without the driver: %q", failure)
	}
	control(t, s, "fault", "clear")
	must(t, s, "HcnModifyNetwork", "", open(t, s, "Network", network),
		`{"ResourceType":"Extension","RequestType":"Update","Settings":`+enable+`}`)
	if is, _ := enabled(); !is {
		t.Error("HCN has not enabled it")
	}
}

func TestFaults(t *testing.T) { synctest.Test(t, testFaults) }

func testFaults(t *testing.T) {
	s := newService(t)
	network := must(t, s, "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet"))
	opens := func() Error { return s.Call("HcnOpenNetwork", network, 0, "").Status }

	control(t, s, "fault", "fail", "HcnOpenNetwork", "0x80070005", "2")
	if a, b, c := opens(), opens(), opens(); a != 0x80070005 || b != 0x80070005 || c != 0 {
		t.Errorf("two calls were to fail: %v, %v, %v", a, b, c)
	}
	control(t, s, "fault", "fail", "HcnOpenNetwork", "803b0001")
	for range 3 {
		if err := opens(); err != ErrNetworkNotFound {
			t.Errorf("every call was to fail: %v", err)
		}
	}
	control(t, s, "fault", "clear")
	if err := opens(); err != 0 {
		t.Errorf("the fault was cleared: %v", err)
	}

	// One call hangs, and others go on meanwhile.
	const hang = 2 * time.Second
	control(t, s, "fault", "hang", "HcnOpenNetwork", fmt.Sprint(hang.Seconds()), "1")
	began := time.Now()
	held := make(chan time.Duration, 1)
	go func() {
		opens()
		held <- time.Since(began)
	}()
	synctest.Wait()
	must(t, s, "HcnEnumerateNetworks", "", 0, "")
	if calls := s.calls.faults()["held HcnOpenNetwork"]; len(held) > 0 || calls != 1 {
		t.Errorf("another call waited for the one that hangs, or %v hang", calls)
	}
	if took := <-held; took != hang {
		t.Errorf("the call took %v", took)
	}
	if calls, hang := s.calls.faults()["held HcnOpenNetwork"]; hang {
		t.Errorf("%v calls still hang", calls)
	}

	// While HNS restarts nobody answers, and handles are void after.
	handle := open(t, s, "Network", network)
	control(t, s, "fault", "restart", "0.1")
	if err := opens(); err != ErrServerUnavailable {
		t.Errorf("the service is stopped: %v", err)
	}
	if time.Sleep(time.Second); opens() != 0 {
		t.Fatal("the service is not back")
	}
	if status := s.Call("HcnQueryNetworkProperties", "", handle, "{}").Status; status != ErrNetworkNotFound {
		t.Errorf("a handle has survived the restart: %v", status)
	}
}

func TestControlRefuses(t *testing.T) {
	s := newService(t)
	for _, words := range []string{
		"", "dance", "namespace add 1", "fault hang HcnDeleteEndpoint", "fault hang HcnDeleteEndpont 3",
		"fault hang HNSCall -1",
		"fault hang HNSCall 3 0", "fault fail HNSCall zero", "fault fail HNSCall 0", "fault delay-vnic soon",
		"fault lose-network",
		"start 11111111-2222-3333-4444-555555555555", "state now",
	} {
		if _, err := s.Control(strings.Fields(words)); err == nil {
			t.Errorf("%q is accepted", words)
		}
	}
}

func TestEnumerateFilters(t *testing.T) {
	s := newService(t)
	network := must(t, s, "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet"))
	must(t, s, "HcnCreateNetwork", "", 0, transparent("other", "Ethernet 2"))
	for filter, want := range map[string]int{
		``: 2, `{"Filter":"{\"Name\":\"weft\"}"}`: 1, `{"Filter":"{\"Name\":\"x\"}"}`: 0, `{"Filter":"{\"ID\":\"` +
			strings.ToLower(network) + `\"}"}`: 1,
	} {
		reply := s.Call("HcnEnumerateNetworks", "", 0, filter)
		var ids []string
		if reply.Status != 0 || json.Unmarshal([]byte(*reply.Out), &ids) != nil || len(ids) != want {
			t.Errorf("%s: %v %v", filter, reply.Status, ids)
		}
	}
	if reply := s.Call("HcnEnumerateNetworks", "", 0, `{"Filter":"{"}`); reply.Status != ErrInvalidJSON {
		t.Errorf("a filter that is no JSON: %v", reply.Status)
	}
}
