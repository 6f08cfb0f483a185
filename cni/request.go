package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/utils"
)

// Verb is an operation of the CNI specification that the agent serves.
type Verb string

// The verbs, as CNI_COMMAND writes them.
const (
	Add    Verb = "ADD"
	Del    Verb = "DEL"
	Check  Verb = "CHECK"
	Status Verb = "STATUS"
	GC     Verb = "GC"
)

// Request is a call as the plugin received it: environment and standard input.
type Request struct {
	ContainerID string          `json:"containerID,omitempty"`
	Netns       string          `json:"netns,omitempty"`
	IfName      string          `json:"ifName,omitempty"`
	Args        string          `json:"args,omitempty"`
	Config      json.RawMessage `json:"config"`
}

// Attachment names one interface of one sandbox. It is the key of all that weft makes for it.
type Attachment struct {
	ContainerID string
	IfName      string
}

func (a Attachment) String() string { return a.ContainerID + "/" + a.IfName }

// Pod is the pod that a sandbox belongs to.
type Pod struct {
	Namespace string
	Name      string
	UID       string
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Call is a checked [Request]. Fields that a verb does not use are empty.
type Call struct {
	Attachment Attachment
	Netns      string
	Pod        Pod
	Config     NetworkConfig
}

// ParseRequest reads the body of a verb's request and checks it. The error is a *[types.Error]
// with the specification's code, and names the field.
func ParseRequest(verb Verb, body []byte) (*Call, error) {
	var request Request
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return nil, decodingFailure("request of the plugin", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, decodingFailure("request of the plugin", errors.New("more follows after its end"))
	}
	config, err := parseNetworkConfig(verb, request.Config)
	if err != nil {
		return nil, err
	}
	call := &Call{Config: *config}
	if verb == Status || verb == GC {
		return call, nil
	}
	if err := utils.ValidateContainerID(request.ContainerID); err != nil {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_CONTAINERID: "+err.Msg, request.ContainerID)
	}
	if err := utils.ValidateInterfaceName(request.IfName); err != nil {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_IFNAME: "+err.Msg, request.IfName)
	}
	if request.Netns == "" && verb != Del {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_NETNS is empty", "")
	}
	call.Attachment = Attachment{ContainerID: request.ContainerID, IfName: request.IfName}
	call.Netns = request.Netns
	if call.Pod, err = parsePod(request.Args); err != nil && verb != Del { // DEL needs the container ID only
		return nil, err
	}
	return call, nil
}

// parsePod reads the pod from CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;...".
func parsePod(args string) (Pod, error) {
	values := map[string]string{}
	for item := range strings.SplitSeq(args, ";") {
		if item == "" {
			continue
		}
		key, value, ok := strings.Cut(item, "=")
		if !ok {
			return Pod{}, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI_ARGS: %q is not KEY=VALUE",
				item), "")
		}
		if _, twice := values[key]; twice {
			return Pod{}, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI_ARGS: %s occurs twice", key), "")
		}
		values[key] = value
	}
	pod := Pod{Namespace: values["K8S_POD_NAMESPACE"], Name: values["K8S_POD_NAME"], UID: values["K8S_POD_UID"]}
	var missing []string
	for _, key := range []string{"K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID"} {
		if values[key] == "" {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return Pod{}, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_ARGS: without "+strings.Join(missing, ", "),
			"the container runtime passes it for every Kubernetes pod (containerd 1.6 and CRI-O 1.20 or later)")
	}
	ignore := strings.EqualFold(values["IgnoreUnknown"], "true") || values["IgnoreUnknown"] == "1"
	for key := range values {
		switch key {
		case "K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID", "K8S_POD_INFRA_CONTAINER_ID", "IgnoreUnknown":
		default:
			if !ignore {
				return Pod{}, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI_ARGS: %s is not known", key),
					"add IgnoreUnknown=1 to have it ignored")
			}
		}
	}
	return pod, nil
}

// NetworkConfig is what weft uses of the network configuration on standard input.
type NetworkConfig struct {
	CNIVersion string
	// Network is the network's name.
	Network string
	// DNS is returned in the result as it is: the runtime's for the pod, or the configuration's own.
	DNS types.DNS
	// Previous is the result of the attachment's ADD; nil except in CHECK.
	Previous *types100.Result
	// Valid are the attachments that a GC keeps; nil except in GC.
	Valid map[Attachment]bool
}

// Fields of the configuration that weft reads or that the specification and libcni define. Keys
// below cni.dev/ are the specification's own and may grow.
var configFields = map[string]bool{
	"cniVersion": true, "name": true, "type": true, "socket": true, "dns": true, "prevResult": true,
	"capabilities": true, "runtimeConfig": true, "args": true, "ipam": true,
}

func parseNetworkConfig(verb Verb, text []byte) (*NetworkConfig, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, decodingFailure("network configuration", err)
	}
	for key, value := range fields {
		if !configFields[key] && !strings.HasPrefix(key, "cni.dev/") {
			return nil, types.NewError(types.ErrUnsupportedField, fmt.Sprintf("network configuration: field %q with value %s "+
				"is not supported", key, value), "")
		}
	}
	var known struct {
		CNIVersion string                `json:"cniVersion"`
		Name       string                `json:"name"`
		IPAM       types.IPAM            `json:"ipam"`
		DNS        types.DNS             `json:"dns"`
		Previous   json.RawMessage       `json:"prevResult"`
		Valid      *[]types.GCAttachment `json:"cni.dev/valid-attachments"`
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, decodingFailure("network configuration", err)
	}
	if known.Name == "" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, `network configuration: "name" is missing`, "")
	}
	if !known.IPAM.IsEmpty() {
		return nil, types.NewError(types.ErrUnsupportedField,
			fmt.Sprintf(`network configuration: field "ipam" with value %s is not supported`, fields["ipam"]),
			"weft's controller allocates the addresses of pods; remove the field")
	}
	config := &NetworkConfig{CNIVersion: known.CNIVersion, Network: known.Name, DNS: known.DNS}
	switch verb {
	case Add:
		if len(known.Previous) > 0 {
			return nil, types.NewError(types.ErrInvalidNetworkConfig, `network configuration: "prevResult" is present`,
				"weft must be the first plugin of its list")
		}
		return config, config.parseRuntimeConfig(fields["runtimeConfig"])
	case Check:
		return config, config.parsePrevious(known.Previous)
	case GC:
		if _, given := fields["cni.dev/valid-attachments"]; !given {
			return nil, types.NewError(types.ErrInvalidNetworkConfig,
				`network configuration: "cni.dev/valid-attachments" is missing`, "")
		}
		config.Valid = map[Attachment]bool{}
		if known.Valid != nil {
			for _, a := range *known.Valid {
				config.Valid[Attachment{ContainerID: a.ContainerID, IfName: a.IfName}] = true
			}
		}
	}
	return config, nil
}

func (c *NetworkConfig) parsePrevious(text json.RawMessage) error {
	if len(text) == 0 || string(text) == "null" {
		return types.NewError(types.ErrInvalidNetworkConfig, `network configuration: "prevResult" is missing`,
			"CHECK compares with the result of ADD")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return decodingFailure(`"prevResult" of the network configuration`, err)
	}
	// A previous result is of the configuration's version, whether it says so or not.
	if _, says := fields["cniVersion"]; !says {
		fields["cniVersion"], _ = json.Marshal(c.CNIVersion)
		text, _ = json.Marshal(fields)
	}
	result, err := create.Create(c.CNIVersion, text)
	if err != nil {
		return decodingFailure(`"prevResult" of the network configuration`, err)
	}
	if c.Previous, err = types100.GetResult(result); err != nil {
		return decodingFailure(`"prevResult" of the network configuration`, err)
	}
	return nil
}

func decodingFailure(what string, err error) *types.Error {
	return types.NewError(types.ErrDecodingFailure, "decode "+what+": "+err.Error(), "")
}
