package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/weftnet/weft/models/contract"
	build "github.com/weftnet/weft/models/version"
)

// Where doors say that they are there. The namespace is their own: whoever may write EndpointSlices in another one
// could take that one's Services over.
const (
	Namespace = "weft-observe"
	Service   = "weft-observe"
	// ServerName is the DNS name by which the API server knows a door.
	ServerName = Service + "." + Namespace + ".svc"

	managedBy = "observe.weft.net"
)

const (
	renewal = 5 * time.Second
	// silence is after how long without a renewal a door is taken for dead.
	silence = 20 * time.Second
)

// presence is a door's EndpointSlice of the Service, and a Lease that says that it lives. A door that has no time to
// remove them is removed by another.
type presence struct {
	client   kubernetes.Interface
	identity string
	address  netip.AddrPort
	renewal  time.Duration
	silence  time.Duration

	seen map[string]sighting // of other doors, by their Lease
}

// sighting is when a Lease had another version for the last time, by this door's clock: others' may differ.
type sighting struct {
	version string
	at      time.Time
}

func (p *presence) name() string { return nameOf(p.identity) }

func nameOf(identity string) string { return Service + "-" + identity }

// keep says that the door is there, until ctx is done.
func (p *presence) keep(ctx context.Context) {
	p.seen = map[string]sighting{}
	for tick := time.NewTicker(p.renewal); ; {
		if err := p.renew(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "the door cannot say that it is there", "namespace", Namespace, "error", err)
		}
		if err := p.sweep(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "doors that are gone cannot be removed", "namespace", Namespace, "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			p.leave()
			return
		}
	}
}

// leave takes both back. The slice goes first: nobody is sent here any more.
func (p *presence) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), p.renewal)
	defer cancel()
	if err := p.remove(ctx, p.name(), metav1.DeleteOptions{}); err != nil {
		slog.Warn("the door cannot say that it leaves; another one does in its place", "error", err)
	}
}

func (p *presence) remove(ctx context.Context, name string, lease metav1.DeleteOptions) error {
	if err := p.client.DiscoveryV1().EndpointSlices(Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("delete EndpointSlice %s: %w", name, err)
	}
	if err := p.client.CoordinationV1().Leases(Namespace).Delete(ctx, name, lease); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Lease %s: %w", name, err)
	}
	return nil
}

func (p *presence) renew(ctx context.Context) error {
	leases := p.client.CoordinationV1().Leases(Namespace)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: p.name(), Labels: map[string]string{discoveryv1.LabelManagedBy: managedBy,
			contract.VersionLabel: contract.VersionLabelValue(build.Version())}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(p.identity),
			LeaseDurationSeconds: ptr.To(int32(p.silence / time.Second)),
			RenewTime:            ptr.To(metav1.NewMicroTime(time.Now()))},
	}
	there, err := leases.Get(ctx, lease.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	case err == nil:
		lease.ResourceVersion = there.ResourceVersion
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew Lease %s: %w", lease.Name, err)
	}
	return p.serve(ctx)
}

// serve writes the slice where it is not what it should be.
func (p *presence) serve(ctx context.Context) error {
	slices := p.client.DiscoveryV1().EndpointSlices(Namespace)
	wanted := p.slice()
	there, err := slices.Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = slices.Create(ctx, wanted, metav1.CreateOptions{})
	case err != nil:
	case there.AddressType != wanted.AddressType: // it cannot be changed; the next renewal makes it
		err = slices.Delete(ctx, wanted.Name, metav1.DeleteOptions{})
	case !apiequality.Semantic.DeepEqual(there.Endpoints, wanted.Endpoints) || !apiequality.Semantic.DeepEqual(there.Ports,
		wanted.Ports) ||
		!apiequality.Semantic.DeepEqual(there.Labels, wanted.Labels):
		wanted.ResourceVersion = there.ResourceVersion
		_, err = slices.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write EndpointSlice %s: %w", wanted.Name, err)
	}
	return nil
}

func (p *presence) slice() *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if p.address.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: p.name(), Labels: map[string]string{
			discoveryv1.LabelServiceName: Service, discoveryv1.LabelManagedBy: managedBy}},
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{p.address.Addr().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP),
			Port: ptr.To(int32(p.address.Port()))}},
	}
}

// sweep removes doors that have said nothing for too long.
func (p *presence) sweep(ctx context.Context) error {
	list, err := p.client.CoordinationV1().Leases(Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + managedBy})
	if err != nil {
		return fmt.Errorf("list Leases: %w", err)
	}
	now, there := time.Now(), map[string]sighting{}
	for _, lease := range list.Items {
		last, known := p.seen[lease.Name]
		if !known || last.version != lease.ResourceVersion {
			last = sighting{lease.ResourceVersion, now}
		}
		there[lease.Name] = last
		if lease.Name == p.name() || now.Sub(last.at) < p.silence {
			continue
		}
		slog.WarnContext(ctx, "a door has gone without a word", "lease", lease.Name)
		precondition := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID(lease.UID)),
			ResourceVersion: ptr.To(lease.ResourceVersion)}}
		if err := p.remove(ctx, lease.Name, precondition); err != nil {
			return err
		}
		delete(there, lease.Name)
	}
	p.seen = there
	return nil
}
