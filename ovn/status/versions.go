package status

import (
	"cmp"
	"context"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// ovnVersionKey is where ovn-northd writes its version, in NB_Global's options.
const ovnVersionKey = "northd_internal_version"

// Versions asks all sources for versions. What one of them does not tell is in the answer, and no error.
func (s *Sources) Versions(ctx context.Context) *api.NetworkVersionList {
	v := api.NetworkVersion{
		TypeMeta:   metav1.TypeMeta{Kind: api.NetworkVersionKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Name: api.NetworkVersionName},
		Doors:      []api.PartVersion{}, Nodes: []api.NodeVersion{},
	}
	for _, node := range s.Nodes() {
		v.Nodes = append(v.Nodes, nodeVersion(node))
	}
	slices.SortFunc(v.Nodes, func(a, b api.NodeVersion) int { return cmp.Compare(a.Name, b.Name) })
	var group sync.WaitGroup
	var mu sync.Mutex
	ask := func(source string, question func(context.Context) error) {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if err := question(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				v.Unread = append(v.Unread, api.Unread{Source: source, Reason: cut(err.Error())})
			}
		})
	}
	leases := &cluster{s.Kubernetes}
	ask("OVN_Northbound", func(ctx context.Context) (err error) {
		v.OVN, err = ovnVersion(ctx, s.Northbound)
		return err
	})
	ask("the controllers' Lease", func(ctx context.Context) error {
		leaders, err := leases.holders(ctx, query{path: leasePath(leaseNamespace), fields: "metadata.name=" + leaderLease})
		for _, leader := range leaders {
			v.Controller = leader
		}
		return err
	})
	ask("the chassis hosts' Leases", func(ctx context.Context) (err error) {
		v.ChassisHosts, err = leases.holders(ctx, query{path: leasePath(leaseNamespace),
			labels: contract.ChassisLeaseLabel + "=" + contract.LeaseOfHost})
		return err
	})
	ask("the doors' Leases", func(ctx context.Context) error {
		doors, err := leases.holders(ctx, query{path: leasePath(s.DoorNamespace)})
		v.Doors = append(v.Doors, doors...)
		return err
	})
	group.Wait()
	slices.SortFunc(v.Unread, func(a, b api.Unread) int { return cmp.Compare(a.Source, b.Source) })
	return &api.NetworkVersionList{
		TypeMeta: metav1.TypeMeta{Kind: api.NetworkVersionKind + "List", APIVersion: api.GroupVersion},
		Items:    []api.NetworkVersion{v},
	}
}

// nodeVersion is what the agent of a Node says of itself.
func nodeVersion(o *corev1.Node) api.NodeVersion {
	facts, _, _ := contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation) // else it is empty
	return api.NodeVersion{Name: o.Name, System: o.Labels[corev1.LabelOSStable], Agent: cut(facts.Version),
		OpenVSwitch: cut(facts.OpenVSwitch)}
}

// ovnVersion is that of the ovn-northd that has written the Northbound last.
func ovnVersion(ctx context.Context, config ovsdb.Config) (version string, err error) {
	if config.Model, err = nb.FullDatabaseModel(); err != nil {
		return "", err
	}
	config.Tables = []ovsdb.Table{{Model: &nb.NBGlobal{}, Read: []string{"options"}}}
	err = ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error {
		for _, row := range ovsdb.List[nb.NBGlobal](client, nil) {
			version = cut(row.Options[ovnVersionKey])
		}
		return nil
	})
	return version, err
}

// holders are those of Leases, with the versions that they have labelled them with, by name.
func (c *cluster) holders(ctx context.Context, q query) (parts []api.PartVersion, err error) {
	leases, _, err := list[coordinationv1.Lease](ctx, c, q)
	for i := range leases {
		lease := &leases[i]
		parts = append(parts, api.PartVersion{Name: cut(objects.Deref(lease.Spec.HolderIdentity, "")),
			Version: cut(lease.Labels[contract.VersionLabel])})
	}
	slices.SortFunc(parts, func(a, b api.PartVersion) int { return cmp.Compare(a.Name, b.Name) })
	return parts, err
}

func leasePath(namespace string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
}
