package tour

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/weftnet/weft/test/hns"
)

const nobody = "99999999-9999-9999-9999-999999999999"

// adapter is the one that the test's network may take, as the environment says.
var adapter = os.Getenv("HNS_TOUR_ADAPTER")

func TestMain(m *testing.M) {
	if adapter == "" {
		fmt.Fprintln(os.Stderr, "these tests are run by those of package hns, which start an emulator for them")
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func settings(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func transparent(t *testing.T, name, adapter string) *hcn.HostComputeNetwork {
	t.Helper()
	return &hcn.HostComputeNetwork{
		Name: name, Type: hcn.Transparent, SchemaVersion: hcn.V2SchemaVersion(),
		Policies: []hcn.NetworkPolicy{
			{Type: hcn.NetAdapterName,
				Settings: settings(t, hcn.NetAdapterNameNetworkPolicySetting{NetworkAdapterName: adapter})}},
		Ipams: []hcn.Ipam{{Type: "Static",
			Subnets: []hcn.Subnet{{IpAddressPrefix: "10.244.7.0/24",
				Routes: []hcn.Route{{NextHop: "10.244.7.1", DestinationPrefix: "0.0.0.0/0"}}}}}},
	}
}

func network(t *testing.T) *hcn.HostComputeNetwork {
	t.Helper()
	n, err := transparent(t, "weft", adapter).Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Delete(); err != nil && !hcn.CheckErrorWithCode(err, code(hns.ErrNetworkNotFound)) {
			t.Error(err)
		}
	})
	return n
}

func pod(name string, last int) *hcn.HostComputeEndpoint {
	return &hcn.HostComputeEndpoint{
		Name: name, SchemaVersion: hcn.V2SchemaVersion(), MacAddress: fmt.Sprintf("0A-58-0A-F4-07-%02X", last),
		IpConfigurations: []hcn.IpConfig{{IpAddress: fmt.Sprintf("10.244.7.%d", last), PrefixLength: 24}},
		Routes:           []hcn.Route{{NextHop: "10.244.7.1", DestinationPrefix: "0.0.0.0/0"}},
		Dns: hcn.Dns{Domain: "cluster.local", ServerList: []string{"10.96.0.10"},
			Search: []string{"default.svc.cluster.local", "svc.cluster.local"}, Options: []string{"ndots:5"}},
	}
}

func code(e hns.Error) hcn.ErrorCode { return hcn.ErrorCode(e) }

func TestFeatures(t *testing.T) {
	features, err := hcn.GetCachedSupportedFeatures()
	if err != nil {
		t.Fatal(err)
	}
	if !features.Api.V2 || !features.IPv6DualStack || !features.DisableHostPort || features.Accelnet {
		t.Errorf("HNS of Windows Server 2022 has other features: %+v", features)
	}
	if _, _, build := windows.RtlGetNtVersionNumbers(); build != 20348 {
		t.Errorf("Windows Server 2022 is build 20348, and not %d", build)
	}
}

func TestNetworks(t *testing.T) {
	n := network(t)
	if n.Type != hcn.Transparent || n.Id == "" || n.Health.Extra.SwitchGuid == "" {
		t.Errorf("created: %+v", n)
	}
	if list, err := hcn.ListNetworks(); err != nil || len(list) != 1 || list[0].Id != n.Id {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if found, err := hcn.GetNetworkByName("weft"); err != nil || found.Id != n.Id {
		t.Errorf("by name: %+v, %v", found, err)
	}
	if found, err := hcn.GetNetworkByID(strings.ToLower(n.Id)); err != nil || found.Name != "weft" {
		t.Errorf("by GUID: %+v, %v", found, err)
	}
	if _, err := hcn.GetNetworkByName("nobody"); !hcn.IsNotFoundError(err) {
		t.Errorf("nobody's by name: %v", err)
	}
	if _, err := transparent(t, "weft", adapter).Create(); !hcn.CheckErrorWithCode(err, code(hns.ErrNetworkExists)) {
		t.Errorf("the name is taken: %v", err)
	}
	if _, err := transparent(t, "other", "Token Ring").Create(); !hcn.CheckErrorWithCode(err,
		code(hns.ErrAdapterNotFound)) {
		t.Errorf("there is no such adapter: %v", err)
	}
	// HNS's own error for a network that is not there is none that hcsshim calls "not found".
	if err := (&hcn.HostComputeNetwork{Id: nobody}).Delete(); !hcn.CheckErrorWithCode(err, code(hns.ErrNetworkNotFound)) ||
		hcn.IsNotFoundError(err) {
		t.Errorf("delete nobody's: %v", err)
	}
}

func TestExtension(t *testing.T) {
	n := network(t)
	enable := `{"Extensions":[{"Id":"` + hns.OVSExtension + `","IsEnabled":true}]}`
	if answer, err := hcsshim.HNSNetworkRequest("POST", n.Id, enable); err != nil || answer.Name != "weft" ||
		answer.NetworkAdapterName != adapter {
		t.Errorf("enable: %+v, %v", answer, err)
	}
	if _, err := hcsshim.HNSNetworkRequest("POST", nobody, enable); err == nil || !strings.Contains(err.Error(),
		"The network was not found") {
		t.Errorf("of nobody's network: %v", err)
	}
	missing := `{"Extensions":[{"Id":"` + nobody + `","IsEnabled":true}]}`
	if _, err := hcsshim.HNSNetworkRequest("POST", n.Id, missing); err == nil {
		t.Error("an extension that is not installed is enabled")
	}
	if list, err := hcsshim.HNSListNetworkRequest("GET", "", ""); err != nil || len(list) != 1 ||
		list[0].Type != "Transparent" {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if e, err := hcsshim.HNSListEndpointRequest(); err != nil || len(e) != 0 {
		t.Errorf("endpoints: %+v, %v", e, err)
	}
}

func TestEndpoints(t *testing.T) {
	n := network(t)
	made, err := n.CreateEndpoint(pod("web", 5))
	if err != nil {
		t.Fatal(err)
	}
	if made.MacAddress != "0A-58-0A-F4-07-05" || len(made.Dns.Search) != 2 || made.HostComputeNetwork != n.Id ||
		made.HostComputeNamespace != "" {
		t.Errorf("created: %+v", made)
	}
	for name, refused := range map[string]struct {
		endpoint *hcn.HostComputeEndpoint
		want     hns.Error
	}{
		"its name is taken":    {pod("web", 6), hns.ErrObjectExists},
		"its address is taken": {pod("other", 5), hns.ErrAddressReserved},
		"its address is elsewhere": {&hcn.HostComputeEndpoint{Name: "x", IpConfigurations: []hcn.IpConfig{
			{IpAddress: "10.9.9.9", PrefixLength: 24}}}, hns.ErrInvalidIP},
	} {
		if _, err := n.CreateEndpoint(refused.endpoint); !hcn.CheckErrorWithCode(err, hcn.ErrorCode(win32(refused.want))) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := hcn.ListEndpointsOfNetwork(n.Id); err != nil || len(list) != 1 {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if found, err := hcn.GetEndpointByName("web"); err != nil || found.Id != made.Id {
		t.Errorf("by name: %+v, %v", found, err)
	}
	if _, err := hcn.GetEndpointByName("nobody"); !hcn.IsNotFoundError(err) {
		t.Errorf("nobody's by name: %v", err)
	}
	ports := hcn.PolicyEndpointRequest{Policies: []hcn.EndpointPolicy{{Type: hcn.PortMapping,
		Settings: settings(t, hcn.PortMappingPolicySetting{Protocol: 6, InternalPort: 80, ExternalPort: 8080})}}}
	if err := made.ApplyPolicy(hcn.RequestTypeAdd, ports); err != nil {
		t.Errorf("map a port: %v", err)
	}
	if found, err := hcn.GetEndpointByID(made.Id); err != nil || len(found.Policies) != 1 {
		t.Errorf("with a port: %+v, %v", found, err)
	}
	if err := made.Delete(); err != nil {
		t.Error(err)
	}
	if err := made.Delete(); !hcn.CheckErrorWithCode(err, code(hns.ErrEndpointNotFound)) || hcn.IsNotFoundError(err) {
		t.Errorf("delete twice: %v", err)
	}
}

// win32 is the code that hcsshim has of an HRESULT: Win32 errors lose their wrapping.
func win32(e hns.Error) uint32 {
	if uint32(e)&0x1fff0000 == 0x00070000 {
		return uint32(e) & 0xffff
	}
	return uint32(e)
}

func TestNamespaces(t *testing.T) {
	n := network(t)
	made, err := n.CreateEndpoint(pod("web", 5))
	if err != nil {
		t.Fatal(err)
	}
	spaces := []*hcn.HostComputeNamespace{}
	for range 2 {
		space, err := hcn.NewNamespace(hcn.NamespaceTypeHostDefault).Create()
		if err != nil {
			t.Fatal(err)
		}
		spaces = append(spaces, space)
	}
	first, second := spaces[0].Id, spaces[1].Id
	if spaces[0].NamespaceId < 2 || spaces[0].NamespaceId == spaces[1].NamespaceId {
		t.Errorf("the compartments are %d and %d", spaces[0].NamespaceId, spaces[1].NamespaceId)
	}
	if err := hcn.AddNamespaceEndpoint(first, made.Id); err != nil {
		t.Fatal(err)
	}
	if ids, err := hcn.GetNamespaceEndpointIds(first); err != nil || len(ids) != 1 || ids[0] != made.Id {
		t.Errorf("the endpoints are %v, %v", ids, err)
	}
	if found, err := hcn.GetEndpointByID(made.Id); err != nil || found.HostComputeNamespace != first {
		t.Errorf("attached: %+v, %v", found, err)
	}
	if err := hcn.AddNamespaceEndpoint(first, made.Id); !hcn.CheckErrorWithCode(err, code(hns.ErrEndpointAttached)) {
		t.Errorf("attach again: %v", err)
	}
	if err := hcn.AddNamespaceEndpoint(second, made.Id); !hcn.CheckErrorWithCode(err,
		code(hns.ErrEndpointNamespaceExists)) {
		t.Errorf("attach elsewhere: %v", err)
	}
	// hcsshim 0.15's IsNotFoundError does not know this one: its HcnError does not unwrap.
	if err := hcn.AddNamespaceEndpoint(nobody, made.Id); !hcn.IsElementNotFoundError(err) || hcn.IsNotFoundError(err) {
		t.Errorf("attach to nobody's namespace: %v", err)
	}
	if err := hcn.RemoveNamespaceEndpoint(first, made.Id); err != nil {
		t.Error(err)
	}
	if err := hcn.RemoveNamespaceEndpoint(first, made.Id); !hcn.IsElementNotFoundError(err) {
		t.Errorf("remove twice: %v", err)
	}
	for _, space := range spaces {
		if err := space.Delete(); err != nil {
			t.Error(err)
		}
		if err := space.Delete(); !hcn.IsElementNotFoundError(err) {
			t.Errorf("delete twice: %v", err)
		}
	}
	if _, err := hcn.GetNamespaceByID(first); !hcn.IsNotFoundError(err) {
		t.Errorf("nobody's by GUID: %v", err)
	}
}

func TestLoadBalancers(t *testing.T) {
	n := network(t)
	made, err := n.CreateEndpoint(pod("web", 5))
	if err != nil {
		t.Fatal(err)
	}
	balancer, err := hcn.AddLoadBalancer([]hcn.HostComputeEndpoint{*made}, hcn.LoadBalancerFlagsNone,
		hcn.LoadBalancerPortMappingFlagsNone, "", []string{"10.96.0.20"}, 6, 80, 80)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := hcn.ListLoadBalancers(); err != nil || len(list) != 1 || list[0].FrontendVIPs[0] != "10.96.0.20" {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if err := balancer.Delete(); err != nil {
		t.Error(err)
	}
}

func TestHNSIsNotRunning(t *testing.T) {
	if os.Getenv("HNS_TOUR_STOPPED") == "" {
		t.Skip("runs on its own, with HNS stopped")
	}
	_, err := hcn.ListNetworks()
	if !errors.Is(err, windows.RPC_S_SERVER_UNAVAILABLE) && !hcn.CheckErrorWithCode(err,
		hcn.ErrorCode(windows.RPC_S_SERVER_UNAVAILABLE)) {
		t.Errorf("HNS is stopped: %v", err)
	}
}
