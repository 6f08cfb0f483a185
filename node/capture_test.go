package node

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
)

// TestAgentsCaptureWhatTheyAreToldTo and nothing by default.
func TestAgentsCaptureWhatTheyAreToldTo(t *testing.T) {
	pod := contract.CaptureRequest{Pod: &contract.PodReference{Namespace: "shop", Name: "web", UID: "u1"}}
	for _, c := range []struct {
		key     string
		request contract.CaptureRequest
		want    string
	}{
		{nodeconfig.Default().Capture, pod, "captures are off on node n1"},
		{nodeconfig.Default().Capture, contract.CaptureRequest{}, "captures are off on node n1"},
		{nodeconfig.CapturePods, contract.CaptureRequest{}, "only pods are captured on node n1"},
	} {
		config := nodeconfig.Default()
		config.NodeName, config.Capture = "n1", c.key
		if device, err := (captured{config: config}).find(c.request); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("capture %q: %+v, %v; want an error about %q", c.key, device, err, c.want)
		}
	}
}
