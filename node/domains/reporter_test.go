package domains

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// written counts what a reporter writes.
type written struct {
	dynamic.ResourceInterface
	times, bytes, largest int
}

func (w *written) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{Object: map[string]any{}}, nil
}

func (w *written) Patch(_ context.Context, _ string, _ types.PatchType, patch []byte, _ metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	w.times++
	w.bytes += len(patch)
	w.largest = max(w.largest, len(patch))
	return nil, nil
}

// Whatever servers answer, the API server has so many bytes to store, and so many writes of few.
func TestPaceOfReports(t *testing.T) {
	const seconds = 60
	for name, known := range map[string]int{"a small object": 0, "a large object": 7000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				many := manyAddresses(maxTotal)
				b, w := wanting("*.example.com"), &written{}
				r := &reporter{objects: w, node: "n1", uid: func() string { return "" }, book: b, metrics: newMetrics(b)}
				b.hear(time.Now(), "www.example.com", time.Hour, many[:known]...)
				ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
				defer cancel()
				go r.run(ctx)
				for _, addr := range many[known:][:1000] { // each is news
					b.hear(time.Now(), "www.example.com", time.Hour, addr)
					time.Sleep(seconds * time.Second / 1000)
				}
				<-ctx.Done()
				synctest.Wait()
				if most := seconds*bytesPerSecond + w.largest; w.bytes > most {
					t.Errorf("%d bytes are written in %d s, more than %d", w.bytes, seconds, most)
				}
				if w.bytes < seconds*bytesPerSecond/4 {
					t.Errorf("%d bytes are written in %d s: news wait for nothing", w.bytes, seconds)
				}
				if most := int(seconds * time.Second / spacing); w.times > most {
					t.Errorf("there are %d writes in %d s, more than %d", w.times, seconds, most)
				}
			})
		})
	}
}
