package domains

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/telemetry"
)

// Paces of reports. Each is the whole object, which the API server stores anew.
const (
	debounce = 10 * time.Millisecond  // answers come in pairs: of IPv4 and of IPv6
	spacing  = 100 * time.Millisecond // between two reports, at least
	leisure  = 5 * time.Second        // how often it is looked whether something is to be reported that can wait

	firstPause = time.Second // after a failure
	lastPause  = 30 * time.Second
	writeTime  = 10 * time.Second

	bytesPerSecond = 200_000 // of reports, whatever the servers answer
)

// reporter writes what the book holds into the node's ResolvedNames.
type reporter struct {
	objects dynamic.ResourceInterface
	node    string
	uid     func() string
	book    *book
	metrics *metrics
	told    bool // of a failure that lasts
	size    int  // of the last report, in bytes
}

func newReporter(config Config, b *book, m *metrics) *reporter {
	return &reporter{objects: config.Own.Resource(v1alpha1.ResolvedNamesResource), node: config.Node, uid: config.NodeUID,
		book: b, metrics: m}
}

// run writes until ctx ends. It begins with what is written already: clients may use that still.
func (r *reporter) run(ctx context.Context) {
	r.try(ctx, r.restore)
	look := time.NewTicker(leisure)
	defer look.Stop()
	for ctx.Err() == nil {
		select {
		case <-r.book.urgent:
			signal.Sleep(ctx, debounce)
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if !r.book.due(time.Now()) {
			continue
		}
		r.try(ctx, r.report)
		signal.Sleep(ctx, max(spacing, time.Duration(r.size)*time.Second/bytesPerSecond))
	}
}

// try repeats until it succeeds or ctx ends.
func (r *reporter) try(ctx context.Context, do func(context.Context) error) {
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		limited, cancel := context.WithTimeout(ctx, writeTime)
		err := do(limited)
		cancel()
		if ctx.Err() != nil || err == nil {
			r.told = false
			return
		}
		r.metrics.failures.Inc()
		if !r.told {
			slog.WarnContext(ctx, "cannot keep the node's ResolvedNames: domain names in policies lack the addresses that DNS "+
				"servers on this node answer; see that the CustomResourceDefinition is there and that the agent's user may get, "+
				"create and patch its own object",
				telemetry.Object("Node", "", r.node), "error", err)
			r.told = true
		}
		signal.Sleep(ctx, wait)
	}
}

func (r *reporter) restore(ctx context.Context) error {
	object, err := r.objects.Get(ctx, r.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var before v1alpha1.ResolvedNames
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &before); err != nil {
		slog.WarnContext(ctx, "the node's ResolvedNames cannot be read; it is written anew",
			telemetry.Object("Node", "", r.node), "error", err)
		return nil
	}
	r.book.restore(before.Names, time.Now())
	return nil
}

func (r *reporter) report(ctx context.Context) error {
	names, since := r.book.report(time.Now())
	err := r.write(ctx, names)
	switch {
	case err != nil:
		r.book.failed(since)
	case !since.IsZero():
		r.metrics.delay.Observe(time.Since(since).Seconds())
	}
	return err
}

func (r *reporter) write(ctx context.Context, names []v1alpha1.ResolvedName) error {
	options := metav1.PatchOptions{FieldManager: "weft-node"}
	patch, err := json.Marshal(map[string]any{"names": names})
	if err != nil {
		return err
	}
	r.size = len(patch)
	_, err = r.objects.Patch(ctx, r.node, types.MergePatchType, patch, options)
	if !apierrors.IsNotFound(err) {
		return err
	}
	object := &v1alpha1.ResolvedNames{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ResolvedNames"},
		ObjectMeta: metav1.ObjectMeta{Name: r.node},
		Names:      names,
	}
	if uid := r.uid(); uid != "" { // it goes with the Node
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node",
			Name: r.node, UID: types.UID(uid)}}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	_, err = r.objects.Create(ctx, &unstructured.Unstructured{Object: fields},
		metav1.CreateOptions{FieldManager: options.FieldManager})
	return err
}
