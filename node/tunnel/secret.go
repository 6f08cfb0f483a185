package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Secret are credentials in a Secret of type kubernetes.io/tls with a ca.crt, as cert-manager writes
// it, watched until ctx is done. A Secret that is removed or no longer fits leaves the former ones in use.
func Secret(ctx context.Context, client kubernetes.Interface, namespace, name string) (Credentials, error) {
	s := &secret{held: held{source: fmt.Sprintf("credentials in Secret %s/%s", namespace, name)}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	informer := factory.Core().V1().Secrets().Informer()
	// A reflector that cannot list says so itself, in client-go's log.
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.take(name, object) },
		UpdateFunc: func(_, object any) { s.take(name, object) },
		DeleteFunc: func(any) { s.lose() },
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.source, err)
	}
	factory.Start(ctx.Done())
	return s, nil
}

type secret struct {
	held
	reason error // why there is none, while there is none
}

func (s *secret) take(name string, object any) {
	found, ok := object.(*corev1.Secret)
	if !ok || found.Name != name {
		return
	}
	var missing error
	for _, key := range []string{"ca.crt", corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(found.Data[key]) == 0 {
			missing = errors.Join(missing, fmt.Errorf("it has no %s", key))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = s.offer(&material{ca: found.Data["ca.crt"], certificate: found.Data[corev1.TLSCertKey], key: found.Data[corev1.TLSPrivateKeyKey]}, missing)
}

func (s *secret) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = s.offer(nil, errors.New("it was removed"))
}

func (s *secret) get() (*material, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.now != nil:
		return s.now, nil
	case s.reason != nil:
		return nil, s.reason
	}
	return nil, fmt.Errorf("%s: it is not there, or not read yet", s.source)
}

func (s *secret) Certificate() (*tls.Certificate, error) {
	m, err := s.get()
	if err != nil {
		return nil, err
	}
	return m.pair, nil
}

func (s *secret) Roots() (*x509.CertPool, error) {
	m, err := s.get()
	if err != nil {
		return nil, err
	}
	return m.roots, nil
}
