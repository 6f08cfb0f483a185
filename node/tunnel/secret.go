package tunnel

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/ovsdb/certificates"
)

// Secret are credentials in a Secret of type kubernetes.io/tls with a ca.crt, as cert-manager writes
// it, watched until ctx is done. A Secret that is removed or no longer fits leaves the former ones in use.
func Secret(ctx context.Context, client kubernetes.Interface, namespace, name string) (Credentials, error) {
	s := &secret{source: "Secret " + namespace + "/" + name}
	s.put(certificates.Texts{}, errors.New("it is not there, or not read yet"))
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	informer := factory.Core().V1().Secrets().Informer()
	// A reflector that cannot list says so itself, in client-go's log.
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.update(name, object) },
		UpdateFunc: func(_, object any) { s.update(name, object) },
		DeleteFunc: func(any) { s.put(certificates.Texts{}, errors.New("it was removed")) },
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.source, err)
	}
	factory.Start(ctx.Done())
	return s.get, nil
}

type secret struct {
	source string // for messages
	kept   certificates.Kept

	mu    sync.Mutex
	texts certificates.Texts
	wrong error // with them
}

func (s *secret) update(name string, object any) {
	found, ok := object.(*corev1.Secret)
	if !ok || found.Name != name {
		return
	}
	var missing error
	text := func(key string) certificates.Text {
		if len(found.Data[key]) == 0 {
			missing = errors.Join(missing, fmt.Errorf("it has no %s", key))
		}
		return certificates.Text{From: key + " of " + s.source, PEM: found.Data[key]}
	}
	s.put(certificates.Texts{Certificate: text(corev1.TLSCertKey), Key: text(corev1.TLSPrivateKeyKey),
		Authorities: text("ca.crt")}, missing)
}

func (s *secret) put(texts certificates.Texts, wrong error) {
	if wrong != nil {
		wrong = fmt.Errorf("%s: %w", s.source, wrong)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts, s.wrong = texts, wrong
	_, _ = s.kept.Offer(texts, wrong) // what is good is kept, even if nobody asks before it is bad; get returns the error
}

func (s *secret) get() (*certificates.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Offer(s.texts, s.wrong)
}
