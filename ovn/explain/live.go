package explain

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovsdb"
)

// Read takes a running cluster's objects off its API server: those that policies depend on, and the Services and
// slices of the given namespaces. Kinds of policies that it does not serve have no objects.
func Read(ctx context.Context, config *rest.Config, serviceNamespaces ...string) (*Cluster, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	own, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	l := &lister{ctx: ctx}
	core, all := client.CoreV1(), metav1.ListOptions{}
	list(l, "namespaces", core.Namespaces().List, all)
	list(l, "nodes", core.Nodes().List, all)
	list(l, "pods", core.Pods("").List, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	list(l, "networkpolicies", client.NetworkingV1().NetworkPolicies("").List, all)
	for _, namespace := range serviceNamespaces {
		list(l, "services", core.Services(namespace).List, all)
		list(l, "endpointslices", client.DiscoveryV1().EndpointSlices(namespace).List, all)
	}
	l.custom(own, schema.GroupVersion(v1alpha2.GroupVersion).WithResource("clusternetworkpolicies"), func() runtime.Object { return &v1alpha2.ClusterNetworkPolicy{} })
	l.custom(own, schema.GroupVersion(v1alpha1.GroupVersion).WithResource("adminnetworkpolicies"), func() runtime.Object { return &v1alpha1.AdminNetworkPolicy{} })
	l.custom(own, schema.GroupVersion(v1alpha1.GroupVersion).WithResource("baselineadminnetworkpolicies"), func() runtime.Object { return &v1alpha1.BaselineAdminNetworkPolicy{} })
	if l.err != nil {
		return nil, l.err
	}
	return newCluster(l.objects, nil, true)
}

// lister collects objects until something fails.
type lister struct {
	ctx     context.Context
	objects []runtime.Object
	err     error
}

func list[L runtime.Object](l *lister, what string, from func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions) {
	if l.err != nil {
		return
	}
	answer, err := from(l.ctx, options)
	if err != nil {
		l.err = fmt.Errorf("list %s: %w", what, err)
		return
	}
	l.err = apimeta.EachListItem(answer, func(o runtime.Object) error {
		l.objects = append(l.objects, o)
		return nil
	})
}

// custom lists a kind that an API server may lack.
func (l *lister) custom(own dynamic.Interface, resource schema.GroupVersionResource, empty func() runtime.Object) {
	if l.err != nil {
		return
	}
	answer, err := own.Resource(resource).List(l.ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		l.err = fmt.Errorf("list %s: %w", resource.GroupResource(), err)
		return
	}
	for i := range answer.Items {
		o := empty()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Items[i].Object, o); err != nil {
			l.err = fmt.Errorf("%s %s: %w", answer.Items[i].GetKind(), answer.Items[i].GetName(), err)
			return
		}
		l.objects = append(l.objects, o)
	}
}

// judged are the columns of the Northbound that decide on packets.
var judged = []ovsdb.Table{
	{Model: &nb.ACL{}, Read: []string{"name", "direction", "priority", "tier", "match", "action", "options", "log"}},
	{Model: &nb.PortGroup{}, Read: []string{"name", "ports", "acls"}},
	{Model: &nb.AddressSet{}, Read: []string{"name", "addresses"}},
	{Model: &nb.LogicalSwitchPort{}, Read: []string{"name", "type", "addresses", "dynamic_addresses"}},
	{Model: &nb.LogicalSwitch{}, Read: []string{"name", "ports", "acls"}},
}

// Northbound has questions judged by the rows that a Northbound has. What of them cannot be read is told by the
// error; the others are good without it.
func (c *Cluster) Northbound(ctx context.Context, config ovsdb.Config) (unread, err error) {
	if config.Model, err = nb.FullDatabaseModel(); err != nil {
		return nil, fmt.Errorf("model of the Northbound: %w", err)
	}
	config.Tables = judged
	client, err := ovsdb.Connect(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("ovn-northbound: %w", err)
	}
	defer client.Close()
	c.actual, unread = acl.New(acl.Rows{
		ACLs: ovsdb.List[nb.ACL](client, nil), PortGroups: ovsdb.List[nb.PortGroup](client, nil), AddressSets: ovsdb.List[nb.AddressSet](client, nil),
		Ports: ovsdb.List[nb.LogicalSwitchPort](client, nil), Switches: ovsdb.List[nb.LogicalSwitch](client, nil),
	})
	return unread, nil
}
