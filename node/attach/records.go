package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
)

// record is an ADD as the runtime asked for it. What runs is in the Open_vSwitch database; records
// say whose a device is that has no port there: one of an ADD that died, or all devices when the
// database was lost. Everything else, the address above all, is asked of the API server again.
type record struct {
	Attachment cni.Attachment `json:"attachment"`
	Pod        cni.Pod        `json:"pod"`
	Sandbox    string         `json:"sandbox"`
	Network    string         `json:"network"`
	// What the pod's annotation does not say of its endpoint.
	DNS types.DNS `json:"dns,omitzero"`

	written time.Time
}

func recordOf(call *cni.Call) record {
	return record{
		Attachment: call.Attachment, Pod: call.Pod, Sandbox: call.Netns, Network: call.Config.Network,
		DNS: call.Config.DNS,
	}
}

func (r record) device() string { return cni.HostInterface(r.Attachment) }

func (r record) endpoint(network *pods.Network, mtu int) platform.Endpoint {
	return platform.Endpoint{
		Attachment: r.Attachment, Device: r.device(), Sandbox: r.Sandbox, Label: r.Pod.String(),
		MAC: network.MAC, Addresses: network.Addresses, Gateways: network.Gateways, MTU: mtu,
		DNS: r.DNS,
	}
}

var recordFile = &hostfile.File{
	Path: "{cni-socket}/../attachments/DEVICE.json", Mode: 0o600,
	Content: "An attached pod, so that it can be plugged in again if Open vSwitch's database is lost. On Windows the " +
		"folder is in state-dir.",
	Loss: "Nothing, unless the database is lost too: then the pod must be deleted.",
}

// records is a folder with a file for each device. Its place, beside the agent's socket, ends with
// the node's uptime as the devices do; on Windows it outlasts that, and the sweep finds no sandbox.
type records struct{ folder string }

func newRecords(c nodeconfig.Config) records {
	return records{filepath.Join(c.StateFolder(), "attachments")}
}

func (r records) path(device string) string { return filepath.Join(r.folder, device+".json") }

// write does not sync: a node that crashes has no devices afterwards.
func (r records) write(one record) error {
	text, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("record of device %s: %w", one.device(), err)
	}
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return fmt.Errorf("record of device %s: %w", one.device(), err)
	}
	partial := r.path(one.device()) + ".new" // one call at a time works on a device
	if err := os.WriteFile(partial, text, recordFile.Mode); err != nil {
		return fmt.Errorf("record of device %s: %w", one.device(), err)
	}
	if err := os.Rename(partial, r.path(one.device())); err != nil {
		return fmt.Errorf("record of device %s: %w", one.device(), err)
	}
	return nil
}

func (r records) remove(device string) error {
	if err := os.Remove(r.path(device)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of device %s: %w", device, err)
	}
	return nil
}

// list returns the records, the latest first. A file that is none is what a node leaves that crashed
// while it was written, and is removed: its device, if there is one, is then one that nobody knows.
func (r records) list() ([]record, error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the records of attachments: %w", err)
	}
	var all []record
	for _, entry := range entries {
		device, isRecord := strings.CutSuffix(entry.Name(), ".json")
		if !isRecord {
			continue
		}
		one, err := r.read(device)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a DEL was faster
		}
		if err != nil {
			slog.Warn("passed over a record of an attachment", "device", device, "error", err)
			if errors.Is(err, errNoRecord) {
				if err := r.remove(device); err != nil {
					return nil, err
				}
			}
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b record) int { return b.written.Compare(a.written) })
	return all, nil
}

var errNoRecord = errors.New("the file holds no record of the device")

func (r records) read(device string) (record, error) {
	var one record
	info, err := os.Stat(r.path(device))
	if err != nil {
		return one, err
	}
	text, err := os.ReadFile(r.path(device))
	if err != nil {
		return one, err
	}
	if err := json.Unmarshal(text, &one); err != nil {
		return one, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	if one.device() != device {
		return one, fmt.Errorf("%w: it is that of device %s", errNoRecord, one.device())
	}
	one.written = info.ModTime()
	return one, nil
}
