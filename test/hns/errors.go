package hns

import "fmt"

// Error is what a Windows function returns: an HRESULT, or a Win32 error for those of iphlpapi.
type Error uint32

// HNS's own errors, as winerror.h and golang.org/x/sys/windows name them. What they mean:
// https://learn.microsoft.com/en-us/virtualization/api/hcn/reference/hcnhresult
const (
	ErrNetworkNotFound         Error = 0x803b0001 // HCN_E_NETWORK_NOT_FOUND
	ErrEndpointNotFound        Error = 0x803b0002 // HCN_E_ENDPOINT_NOT_FOUND
	ErrAdapterNotFound         Error = 0x803b0006 // HCN_E_ADAPTER_NOT_FOUND
	ErrInvalidNetworkType      Error = 0x803b000b // HCN_E_INVALID_NETWORK_TYPE
	ErrInvalidEndpoint         Error = 0x803b000c // HCN_E_INVALID_ENDPOINT
	ErrInvalidPolicy           Error = 0x803b000d // HCN_E_INVALID_POLICY
	ErrInvalidPolicyType       Error = 0x803b000e // HCN_E_INVALID_POLICY_TYPE
	ErrNetworkExists           Error = 0x803b0010 // HCN_E_NETWORK_ALREADY_EXISTS
	ErrPortExists              Error = 0x803b0013 // HCN_E_PORT_ALREADY_EXISTS
	ErrEndpointAttached        Error = 0x803b0014 // HCN_E_ENDPOINT_ALREADY_ATTACHED
	ErrRequestUnsupported      Error = 0x803b0015 // HCN_E_REQUEST_UNSUPPORTED
	ErrInvalidJSON             Error = 0x803b001b // HCN_E_INVALID_JSON
	ErrInvalidIP               Error = 0x803b001e // HCN_E_INVALID_IP
	ErrExtensionNotFound       Error = 0x803b001f // HCN_E_SWITCH_EXTENSION_NOT_FOUND
	ErrEndpointNamespaceExists Error = 0x803b002b // HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS
	ErrInvalidInternalPort     Error = 0x803b002d // HCN_E_INVALID_INTERNAL_PORT
	ErrAddressReserved         Error = 0x803b002f // HCN_E_ADDR_INVALID_OR_RESERVED
)

// Win32 errors as HRESULTs.
const (
	ErrNotImplemented    Error = 0x80004001 // E_NOTIMPL
	ErrInvalidParameter  Error = 0x80070057 // E_INVALIDARG
	ErrElementNotFound   Error = 0x80070490 // ERROR_NOT_FOUND
	ErrObjectExists      Error = 0x80071392 // ERROR_OBJECT_ALREADY_EXISTS
	ErrServerUnavailable Error = 0x800706ba // RPC_S_SERVER_UNAVAILABLE
	ErrGeneral           Error = 0x8007001f // ERROR_GEN_FAILURE
)

// Win32 errors of iphlpapi.
const (
	Win32FileNotFound     Error = 2    // ERROR_FILE_NOT_FOUND: no such interface, to a call for interfaces
	Win32NotSupported     Error = 50   // ERROR_NOT_SUPPORTED
	Win32InvalidParameter Error = 87   // ERROR_INVALID_PARAMETER
	Win32NotFound         Error = 1168 // ERROR_NOT_FOUND: no such address, route or neighbour, or no interface for one
	Win32ObjectExists     Error = 5010 // ERROR_OBJECT_ALREADY_EXISTS
)

// The texts are those that Windows prints; hcsshim's first interface shows a caller nothing else.
var texts = map[Error]string{
	ErrNetworkNotFound:         "The network was not found. ",
	ErrEndpointNotFound:        "The endpoint was not found. ",
	ErrAdapterNotFound:         "An adapter was not found. ",
	ErrInvalidNetworkType:      "Invalid network type. ",
	ErrInvalidEndpoint:         "The provided endpoint configuration is invalid or missing parameters. ",
	ErrInvalidPolicy:           "The provided policy configuration is invalid or missing parameters. ",
	ErrInvalidPolicyType:       "Invalid policy type. ",
	ErrNetworkExists:           "A network with this name already exists. ",
	ErrPortExists:              "The specified port already exists. ",
	ErrEndpointAttached:        "This endpoint is already attached to the switch. ",
	ErrRequestUnsupported:      "The specified request is unsupported. ",
	ErrInvalidJSON:             "Invalid JSON document string. ",
	ErrInvalidIP:               "IP address is either invalid or not part of any configured subnet(s). ",
	ErrExtensionNotFound:       "The specified switch extension does not exist on this switch. ",
	ErrEndpointNamespaceExists: "This requested operation is invalid as endpoint is already part of a network namespace. ",
	ErrInvalidInternalPort:     "The internal port must exist and cannot be zero. ",
	ErrAddressReserved:         "An address provided is invalid or reserved. ",
	ErrNotImplemented:          "Not implemented ",
	ErrInvalidParameter:        "The parameter is incorrect. ",
	ErrElementNotFound:         "Element not found. ",
	ErrObjectExists:            "The object already exists. ",
	ErrServerUnavailable:       "The RPC server is unavailable. ",
	ErrGeneral:                 "A device attached to the system is not functioning. ",
}

func (e Error) Error() string {
	if text, known := texts[e]; known {
		return text
	}
	return fmt.Sprintf("error 0x%08x", uint32(e))
}
