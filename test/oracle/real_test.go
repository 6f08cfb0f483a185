package oracle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestRealCasesTell judges what is made up for real clusters, with addresses as these give out.
func TestRealCasesTell(t *testing.T) {
	asked, refused := 0, 0
	for number := range uint64(20) {
		r := NewReal(*seed + number)
		pods := r.Pods([]string{"l1", "l2", "w1"}, "agnhost")
		for set := range uint64(2) {
			verdicts, err := Judge(listOf(t, pods+"---\n"+r.Policies(set)))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range verdicts {
				if asked++; !v.Allowed {
					refused++
				}
			}
			if want := 9 * 8 * 4 * 2; len(verdicts) != want {
				t.Fatalf("%d verdicts, want %d", len(verdicts), want)
			}
		}
	}
	t.Logf("%d connections, %d of them refused", asked, refused)
	if share := float64(refused) / float64(asked); share < 0.2 || share > 0.8 {
		t.Errorf("%.0f%% of the connections are refused: the cases tell too little", share*100)
	}
}

// listOf are manifests as the API server lists them once their pods have addresses.
func listOf(t *testing.T, manifests string) (list corev1.List) {
	pods := 0
	for text := range strings.SplitSeq(manifests, "---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		if o["kind"] == "Pod" {
			node := pods % 3
			pods++
			o["status"] = map[string]any{"podIPs": []any{
				map[string]any{"ip": fmt.Sprintf("10.244.%d.%d", node, 3+pods)},
				map[string]any{"ip": fmt.Sprintf("fd00:10:244:%d::%x", node, 3+pods)}}}
		}
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		list.Items = append(list.Items, runtime.RawExtension{Raw: raw})
	}
	return list
}
