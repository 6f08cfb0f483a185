// Package hcs does in the lab what containerd and the Host Compute Service do for a pod on Windows
// and what a Linux containerd leaves out: a pod's network is an HCN namespace, known by a GUID, and
// its vNICs appear when its first container starts.
package hcs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/weftnet/weft/test/hns"
)

// NamespaceID is the GUID of a pod sandbox's HCN namespace. On Windows HNS chooses it; here it
// follows from the sandbox's ID, which all that take part know.
func NamespaceID(sandbox string) string {
	b := sha256.Sum256([]byte(sandbox))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// HNS is the emulator behind a control socket.
type HNS struct{ Socket string }

// AddNamespace makes the HCN namespace that stands for a network namespace.
func (h HNS) AddNamespace(ctx context.Context, id, netns string) error {
	return h.control(ctx, "namespace", "add", id, netns)
}

// DeleteNamespace may find that there is none.
func (h HNS) DeleteNamespace(ctx context.Context, id string) error {
	return h.control(ctx, "namespace", "del", id)
}

// Start tells that the first container of the namespace's pod starts.
func (h HNS) Start(ctx context.Context, id string) error { return h.control(ctx, "start", id) }

// Stop tells that it is gone.
func (h HNS) Stop(ctx context.Context, id string) error { return h.control(ctx, "stop", id) }

func (h HNS) control(ctx context.Context, words ...string) error {
	if _, err := hns.Tell(ctx, h.Socket, words); err != nil {
		return fmt.Errorf("HNS: %s: %w", strings.Join(words, " "), err)
	}
	return nil
}
