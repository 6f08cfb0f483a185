package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
)

// cluster asks the API server.
type cluster struct{ rest.Interface }

const (
	// page is how many objects one answer of the API server has.
	page = 500
	// mostOf is how many objects of a kind are read where there may be any number.
	mostOf = 4 * page
	// eventAge is how old the Events are that are told.
	eventAge = time.Hour
)

// onlyMetadata asks for no more of each object.
const onlyMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// query is a list that the API server is asked for.
type query struct {
	path, labels, fields string
	accept               string // "" for whole objects
	most                 int    // 0: all
}

// list reads a list page by page. Of each object only T's fields are kept. truncated says that there are more than
// most.
func list[T any](ctx context.Context, c *cluster, q query) (items []T, truncated bool, err error) {
	for more := ""; ; {
		request := c.Get().AbsPath(q.path).SetHeader("Accept", cmp.Or(q.accept, "application/json")).
			Param("limit", strconv.Itoa(page))
		for name, value := range map[string]string{"labelSelector": q.labels, "fieldSelector": q.fields, "continue": more} {
			if value != "" {
				request.Param(name, value)
			}
		}
		text, err := request.Do(ctx).Raw()
		if err != nil {
			return nil, false, fmt.Errorf("list %s: %w", q.path, err)
		}
		var answer struct {
			Metadata metav1.ListMeta
			Items    []T
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, false, fmt.Errorf("read the list of %s: %w", q.path, err)
		}
		items = append(items, answer.Items...)
		if more = answer.Metadata.Continue; more == "" || q.most > 0 && len(items) >= q.most {
			return items, more != "", nil
		}
	}
}

// optional is a list of a kind that the API server may lack.
func optional[T any](ctx context.Context, c *cluster, q query) ([]T, error) {
	items, _, err := list[T](ctx, c, q)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return items, err
}

// leases are those of controllers and chassis hosts.
type leases struct {
	leader api.Lease
	hosts  map[string]chassisHost // by identity
	nodes  map[string]string      // identity of the host that runs a node's ovn-controller, by node
}

type chassisHost struct {
	lease       api.Lease
	unreachable []string
}

const leaseNamespace = metav1.NamespaceSystem

// leaderLease is what controllers contend for unless they are told otherwise.
var leaderLease = settings.DefaultConfig().LeaseName

func (c *cluster) leases(ctx context.Context) (l leases, err error) {
	path := leasePath(leaseNamespace)
	l = leases{hosts: map[string]chassisHost{}, nodes: map[string]string{}}
	own, _, err := list[coordinationv1.Lease](ctx, c, query{path: path, fields: "metadata.name=" + leaderLease})
	if err != nil {
		return l, err
	}
	for _, lease := range own {
		l.leader = leaseOf(&lease)
	}
	chassis, _, err := list[coordinationv1.Lease](ctx, c, query{path: path, labels: contract.ChassisLeaseLabel})
	for i := range chassis {
		lease := &chassis[i]
		read := leaseOf(lease)
		if lease.Labels[contract.ChassisLeaseLabel] == contract.LeaseOfHost {
			read.Holder = contract.ChassisIdentity(read.Holder)
			l.hosts[read.Holder] = chassisHost{read,
				strings.Split(lease.Annotations[contract.ChassisUnreachableAnnotation], ",")}
		} else if node := lease.Annotations[contract.ChassisNodeAnnotation]; node != "" && read.Holder != "" {
			l.nodes[node] = read.Holder
		}
	}
	return l, err
}

func leaseOf(o *coordinationv1.Lease) api.Lease {
	return api.Lease{Name: objects.FullName(o.Namespace, o.Name), Holder: objects.Deref(o.Spec.HolderIdentity, ""),
		Renewed: objects.Deref(o.Spec.RenewTime, metav1.MicroTime{}),
		Seconds: int(objects.Deref(o.Spec.LeaseDurationSeconds, 0))}
}

// pod is what is read of a pod that has no address in its status.
type pod struct {
	Metadata metav1.ObjectMeta
	Spec     struct{ NodeName string }
	Status   struct{ Conditions []corev1.PodCondition }
}

type waitingPods struct {
	pods      []pod
	truncated bool
}

// waiting are the pods on a node that are to have a network of their own, and have no address yet. The API server
// picks them out.
func (c *cluster) waiting(ctx context.Context) (w waitingPods, err error) {
	w.pods, w.truncated, err = list[pod](ctx, c, query{path: "/api/v1/pods", most: mostOf,
		fields: "status.phase=Pending,status.podIP=,spec.nodeName!=,spec.hostNetwork!=true"})
	return w, err
}

// since is when the pod came to its node.
func (p *pod) since() metav1.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime
		}
	}
	return p.Metadata.CreationTimestamp
}

// annotated says whether the controller has told the pod's node by an annotation which addresses it has given it.
func (p *pod) annotated() bool {
	network, _, err := contract.Parse[contract.PodNetwork](p.Metadata.Annotations, contract.PodNetworkAnnotation)
	return err == nil && network.UID == string(p.Metadata.UID) && len(network.Addresses) > 0
}

func (c *cluster) pools(ctx context.Context) (pools []api.PoolStatus, err error) {
	items, err := optional[v1alpha1.AddressPool](ctx, c, query{path: pathOf(objects.PoolKind, "")})
	for i := range items {
		o := &items[i]
		pools = append(pools, api.PoolStatus{Name: o.Name, Used: o.Status.Used, Free: o.Status.Free,
			Condition: conditionOf(&o.ObjectMeta, o.Status.Conditions)})
	}
	return pools, err
}

func (c *cluster) egress(ctx context.Context) (egress []api.EgressStatus, err error) {
	items, err := optional[v1alpha1.EgressIP](ctx, c, query{path: pathOf(objects.EgressKind, "")})
	for i := range items {
		o := &items[i]
		egress = append(egress, api.EgressStatus{Name: o.Name, Addresses: o.Spec.Addresses, Node: o.Status.Node,
			Pods: o.Status.Pods, Condition: conditionOf(&o.ObjectMeta, o.Status.Conditions)})
	}
	return egress, err
}

// pathOf is where objects of a kind are listed: those of a namespace, or all.
func pathOf(k *objects.Kind, namespace string) string {
	r := k.Resource()
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.Resource
}

// conditionOf is the condition Ready of an object.
func conditionOf(o *metav1.ObjectMeta, conditions []metav1.Condition) api.Condition {
	for _, c := range conditions {
		if c.Type == v1alpha1.Ready {
			return api.Condition{Current: c.ObservedGeneration == o.Generation, Ready: c.Status == metav1.ConditionTrue,
				Reason: c.Reason, Message: cut(c.Message), Changed: c.LastTransitionTime}
		}
	}
	return api.Condition{Changed: o.CreationTimestamp}
}

func (c *cluster) balancers(ctx context.Context) (balancers []api.LoadBalancerStatus, err error) {
	type service struct {
		Metadata metav1.ObjectMeta
		Spec     struct{ LoadBalancerClass string }
		Status   corev1.ServiceStatus
	}
	items, _, err := list[service](ctx, c, query{path: "/api/v1/services", fields: "spec.type=LoadBalancer"})
	for i := range items {
		o := &items[i]
		b := api.LoadBalancerStatus{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name,
			Pool: o.Spec.LoadBalancerClass == v1alpha1.PoolClass, Created: o.Metadata.CreationTimestamp}
		for _, ingress := range o.Status.LoadBalancer.Ingress {
			b.Addresses = append(b.Addresses, cut(cmp.Or(ingress.IP, ingress.Hostname)))
		}
		balancers = append(balancers, b)
	}
	return balancers, err
}

// policyKind is a kind of policies, and whether Weft's word is in an annotation, since the kind has no status.
type policyKind struct {
	name, path string
	annotated  bool
}

var policyKinds = [...]policyKind{
	{"NetworkPolicy", pathOf(objects.NetworkPolicyKind, ""), true},
	{"ClusterNetworkPolicy", pathOf(objects.ClusterPolicyKind, ""), false},
	{"AdminNetworkPolicy", pathOf(objects.AdminPolicyKind, ""), false},
	{"BaselineAdminNetworkPolicy", pathOf(objects.BaselinePolicyKind, ""), false},
}

type policies struct {
	total      int
	notInForce []api.PolicyStatus
}

func (c *cluster) policies(ctx context.Context, kind policyKind) (p policies, err error) {
	type policy struct {
		Metadata metav1.ObjectMeta
		Status   struct{ Conditions []metav1.Condition }
	}
	q := query{path: kind.path}
	if kind.annotated {
		q.accept = onlyMetadata
	}
	items, err := optional[policy](ctx, c, q)
	p.total = len(items)
	for i := range items {
		o := &items[i]
		status := api.PolicyStatus{Kind: kind.name, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
		if kind.annotated {
			status.Condition, status.InForce = annotatedCondition(&o.Metadata)
		} else {
			status.Condition = conditionOf(&o.Metadata, o.Status.Conditions)
			status.InForce = status.Condition.Ready || status.Condition.Reason == partly
		}
		if !status.Condition.Current || !status.Condition.Ready {
			p.notInForce = append(p.notInForce, status)
		}
	}
	return p, err
}

// partly is the reason of a policy of which a part is in force.
const partly = "PartlyInForce"

// annotatedCondition reads what Weft says of a NetworkPolicy.
func annotatedCondition(o *metav1.ObjectMeta) (c api.Condition, inForce bool) {
	c.Changed = o.CreationTimestamp
	said, ok, err := contract.Parse[contract.PolicyStatus](o.Annotations, contract.PolicyStatusAnnotation)
	if !ok || err != nil || said.UID != string(o.UID) {
		return c, false
	}
	if said.Since != nil {
		c.Changed = metav1.NewTime(*said.Since)
	}
	c.Current, c.Ready = said.Generation == o.Generation, said.InForce && said.Reason != partly
	c.Reason, c.Message = cut(said.Reason), cut(said.Message)
	return c, said.InForce
}

// cut bounds a text.
func cut(text string) string { return objects.Cut(text, maxText) }
