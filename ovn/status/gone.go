package status

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
)

// Bounds of the objects of Events that are looked up: how many, and how many at once.
const (
	mostLookedUp   = 50
	lookedUpAtOnce = 10
)

// mirrorHash is the kubelet's annotation on the API's copy of a static pod: the UID that the pod has on its node.
const mirrorHash = "kubernetes.io/config.hash"

// lookedUpKind is a kind whose objects weft observe may list.
type lookedUpKind struct {
	kind       *objects.Kind
	namespaced bool
}

var lookedUp = []lookedUpKind{
	{objects.NodeKind, false}, {objects.PodKind, true}, {objects.ServiceKind, true}, {objects.NetworkPolicyKind, true},
	{objects.ClusterPolicyKind, false}, {objects.AdminPolicyKind, false}, {objects.BaselinePolicyKind, false},
	{objects.EgressKind, false}, {objects.PoolKind, false},
}

// lookUp marks the groups whose object is gone, among those that would be findings. A group whose object is not looked
// up, or cannot be, stays as it is.
func (c *cluster) lookUp(ctx context.Context, groups []group, now time.Time) error {
	told := map[involved][]*api.EventGroup{}
	for i := range groups {
		g := &groups[i]
		if reported(g.told, now) && (told[g.object] != nil || len(told) < mostLookedUp) {
			told[g.object] = append(told[g.object], &g.told)
		}
	}
	var asked errgroup.Group // an error of one object ends no other question
	asked.SetLimit(lookedUpAtOnce)
	for object, events := range told {
		asked.Go(func() error {
			gone, err := c.gone(ctx, object)
			for _, e := range events {
				e.Gone = gone
			}
			return err
		})
	}
	return asked.Wait()
}

// gone says whether the object that an Event names does not exist any more: it was deleted, or another one has its
// name.
func (c *cluster) gone(ctx context.Context, object involved) (bool, error) {
	at := slices.IndexFunc(lookedUp, func(l lookedUpKind) bool { return l.kind.String() == object.Kind })
	if at < 0 {
		return false, nil
	}
	if lookedUp[at].namespaced != (object.Namespace != "") || len(validation.IsDNS1123Subdomain(object.Name)) > 0 {
		return true, nil // there can be no such object, and its name may be too long for a question
	}
	type listed struct{ Metadata metav1.ObjectMeta }
	items, err := optional[listed](ctx, c, query{accept: onlyMetadata,
		path:   pathOf(lookedUp[at].kind, object.Namespace),
		fields: fields.OneTermEqualSelector(metav1.ObjectNameField, object.Name).String()})
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(items, func(o listed) bool {
		return slices.Contains([]types.UID{
			o.Metadata.UID,
			"",                     // the Event names none
			types.UID(object.Name), // as agents and the kubelet name their Node
			types.UID(o.Metadata.Annotations[mirrorHash]), // as an agent names a static pod
		}, object.UID)
	}), nil
}
