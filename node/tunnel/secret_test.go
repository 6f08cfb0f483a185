package tunnel

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/transcript"
)

func TestCredentialsFromASecret(t *testing.T) {
	log, before := &transcript.Transcript{}, slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	ca := newAuthority(t, "test CA")
	object := func(certificate, key []byte) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "weft-chassis"},
			Data:       map[string][]byte{"ca.crt": ca.pem, corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
		}
	}
	client := nodetest.FakeAPI()
	secrets := client.CoreV1().Secrets("kube-system")
	credentials, err := Secret(t.Context(), client, "kube-system", "weft-chassis")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := credentials(); err == nil || !strings.Contains(err.Error(), "kube-system/weft-chassis") {
		t.Fatalf("before it is there: %v", err)
	}
	incomplete := object(nil, nil)
	if _, err := secrets.Create(t.Context(), incomplete, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its missing keys are named", func() bool {
		_, err := credentials()
		return err != nil && strings.Contains(err.Error(), "tls.crt") && strings.Contains(err.Error(), "tls.key")
	})
	serialNumber := func() string {
		set, err := credentials()
		if err != nil {
			return ""
		}
		return set.Own.Leaf.SerialNumber.String()
	}
	var last string
	for range 2 {
		if _, err := secrets.Update(t.Context(), object(ca.issue(HostName)), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the new certificate is used", func() bool { now := serialNumber(); return now != "" && now != last })
		last = serialNumber()
	}
	if err := secrets.Delete(t.Context(), "weft-chassis", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss is noticed", func() bool {
		if serialNumber() != last {
			t.Fatal("a Secret that was removed has taken the certificate along")
		}
		return strings.Contains(log.String(), "kube-system/weft-chassis: it was removed")
	})
}

func TestASecretIsKeptThatNobodyHasAskedFor(t *testing.T) {
	ca := newAuthority(t, "test CA")
	certificate, key := ca.issue(HostName)
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "weft-chassis"},
		Data:       map[string][]byte{"ca.crt": ca.pem, corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}
	s := &secret{source: "Secret"}
	s.update("weft-chassis", object)
	s.update("weft-chassis", &corev1.Secret{ObjectMeta: object.ObjectMeta})
	if _, err := s.get(); err != nil {
		t.Error(err)
	}
}
