package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	weft "github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// Read takes off the API server of a running cluster what a question depends on: namespaces, nodes, pods and
// policies, and Services and slices if it may be about a Service. Kinds of policies that it does not serve have no
// objects.
func Read(ctx context.Context, config *rest.Config, q Question) (*Cluster, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	own, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	l := &lister{ctx: ctx, served: client.Discovery(), own: own}
	core, all := client.CoreV1(), metav1.ListOptions{}
	list(l, "namespaces", core.Namespaces().List, all)
	list(l, "nodes", core.Nodes().List, all)
	list(l, "pods", core.Pods("").List, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	list(l, "networkpolicies", client.NetworkingV1().NetworkPolicies("").List, all)
	l.custom(schema.GroupVersion(v1alpha2.GroupVersion).WithResource("clusternetworkpolicies"), func() runtime.Object {
		return &v1alpha2.ClusterNetworkPolicy{}
	})
	l.custom(schema.GroupVersion(v1alpha1.GroupVersion).WithResource("adminnetworkpolicies"), func() runtime.Object {
		return &v1alpha1.AdminNetworkPolicy{}
	})
	l.custom(schema.GroupVersion(v1alpha1.GroupVersion).WithResource("baselineadminnetworkpolicies"),
		func() runtime.Object { return &v1alpha1.BaselineAdminNetworkPolicy{} })
	if l.err != nil {
		return nil, l.err
	}
	c, err := newCluster(l.objects, nil, true)
	if err != nil {
		return nil, err
	}
	if err := l.resolvedNames(c); err != nil {
		return nil, err
	}
	return c, l.services(c, client, q)
}

// resolvedNames has a cluster take in what domains are resolved to, if a policy names any.
func (l *lister) resolvedNames(c *Cluster) error {
	if !slices.ContainsFunc(c.order, func(o *policy.Policy) bool { return slices.ContainsFunc(o.Rules, namesDomain) }) {
		return nil
	}
	l.objects = nil
	l.custom(weft.ResolvedNamesResource, func() runtime.Object { return &weft.ResolvedNames{} })
	if l.err != nil {
		return l.err
	}
	var list []*weft.ResolvedNames
	for _, o := range l.objects {
		list = append(list, o.(*weft.ResolvedNames))
	}
	return c.resolve(list, time.Now())
}

// services has a cluster take in the Service that a question is about, by name or by an address that is no pod's.
func (l *lister) services(c *Cluster, client kubernetes.Interface, q Question) error {
	if !q.To.Service && (!q.To.Addr.IsValid() || c.podAt(q.To.Addr) != nil) {
		return nil
	}
	l.objects = nil
	list(l, "services", client.CoreV1().Services(q.To.Namespace).List, metav1.ListOptions{})
	for _, o := range l.objects {
		c.take(o)
	}
	if l.err == nil {
		l.err = c.balanced.Update(l.objects, nil)
	}
	from, err := c.end(q.From)
	if l.err != nil || err != nil {
		return l.err // and Ask tells the other
	}
	f, err := c.front(q, from)
	if err != nil || f == nil {
		return nil // Ask tells it
	}
	l.objects = nil
	list(l, "endpointslices", client.DiscoveryV1().EndpointSlices(f.Namespace).List,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + f.Name})
	if l.err == nil {
		l.err = c.balanced.Update(l.objects, nil)
	}
	return l.err
}

// lister collects objects until something fails.
type lister struct {
	ctx     context.Context
	served  discovery.ServerResourcesInterface
	own     dynamic.Interface
	objects []runtime.Object
	err     error
}

func list[L runtime.Object](l *lister, what string, from func(context.Context, metav1.ListOptions) (L, error),
	options metav1.ListOptions) {
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

// custom lists a kind that an API server may lack. It is asked for that at first: to list what it does not have
// may be forbidden.
func (l *lister) custom(resource schema.GroupVersionResource, empty func() runtime.Object) {
	if l.err != nil {
		return
	}
	there, err := l.served.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		l.err = fmt.Errorf("ask for the kinds of %s: %w", resource.GroupVersion(), err)
		return
	}
	if !slices.ContainsFunc(there.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
		return
	}
	answer, err := l.own.Resource(resource).List(l.ctx, metav1.ListOptions{})
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
	rows := acl.Rows{
		ACLs: ovsdb.List[nb.ACL](client, nil), PortGroups: ovsdb.List[nb.PortGroup](client, nil),
		AddressSets: ovsdb.List[nb.AddressSet](client, nil),
		Ports:       ovsdb.List[nb.LogicalSwitchPort](client, nil), Switches: ovsdb.List[nb.LogicalSwitch](client, nil),
	}
	c.actual, unread = acl.New(rows)
	return unread, c.resolveAs(rows.AddressSets)
}
