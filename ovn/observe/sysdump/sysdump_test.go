package sysdump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/node/nodetest"
)

// cluster is an API server that answers some paths, has no right for others, and does not know the rest.
func cluster(t *testing.T, answers map[string]string) rest.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Path
		for _, part := range []string{"container", "previous", "continue"} {
			if value := r.URL.Query().Get(part); value != "" && value != "false" {
				key += "?" + value
			}
		}
		text, known := answers[key]
		switch {
		case !known:
			http.NotFound(w, r)
		case text == "forbidden":
			w.WriteHeader(http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, text) // who asked may be gone
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client.RESTClient()
}

const doorAPI = "/apis/observe.weft.net/v1alpha1/"

// TestWhatFailsIsTold, and the rest is collected.
func TestWhatFailsIsTold(t *testing.T) {
	pod := func(name string, restarts int) string {
		return fmt.Sprintf(`{"metadata": {"namespace": "kube-system", "name": %q, "managedFields": [{"manager": "hunter2"}]},
			"spec": {"nodeName": "l1", "containers": [{"env": [{"value": "hunter2"}]}]},
			"status": {"containerStatuses": [{"name": "weft", "restartCount": %d}]}}`, name, restarts)
	}
	log := "/api/v1/namespaces/kube-system/pods/"
	client := cluster(t, map[string]string{
		doorAPI + "networkstatuses":   `{"items": [{"result": "ok", "note": "token=hunter2"}]}`,
		doorAPI + "networkversions":   "forbidden",
		doorAPI + "networktopologies": "{",
		"/api/v1/nodes":               `{"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "l1"}}]}`,
		"/api/v1/nodes?more": `{"items": [{"metadata": {"name": "l2", "annotations": {"other": "hunter2", "weft.net/a": "b"}},
			"status": {"images": ["hunter2"], "addresses": [{"address": "192.0.2.1"}]}}]}`,
		"/api/v1/pods":                         `{"items": [` + pod("good", 0) + "," + pod("bad", 3) + `]}`,
		log + "good/log?weft":                  "line\nAuthorization: Bearer hunter2hunter2\n",
		log + "bad/log?weft":                   "second life\n",
		doorAPI + "networkdumps/northbound":    `{"table": "T", "row": {"a": 1}}` + "\n" + `{"table": "U", "error": "it is gone"}`,
		doorAPI + "networkdumps/southbound":    `{"table": "T", "row"`,
		doorAPI + "networkdumps/agents":        `{"node": "l1", "metrics": "a 1\n"}{"node": "l2", "error": "away"}{"node": "../x"}`,
		"/apis/weft.net/v1alpha1/addresspools": "forbidden",
	})
	var out bytes.Buffer
	told := 0
	collector := Collector{Kubernetes: client, Version: "1.2.0", Folder: "case", Progress: func(Entry) { told++ }}
	index, err := collector.Collect(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	files := nodetest.Untar(t, &out)
	for name, want := range map[string]string{
		"status.json":                    `{"items":[{"note":"token=[left out]","result":"ok"}]}` + "\n",
		"logs/kube-system/good/weft.log": "line\nAuthorization: Bearer [left out]\n",
		"logs/kube-system/bad/weft.log":  "second life\n",
		"metrics/l1":                     "a 1\n",
		"ovn/northbound.jsonl":           `{"table": "T", "row": {"a": 1}}` + "\n" + `{"table": "U", "error": "it is gone"}` + "\n",
		"kubernetes/nodes.jsonl": `{"metadata":{"name":"l1"}}` + "\n" +
			`{"metadata":{"annotations":{"other":"[left out]","weft.net/a":"b"},"name":"l2"},"status":{"addresses":[{"address":"192.0.2.1"}]}}` +
			"\n",
	} {
		if got := files["case/"+name]; got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	for name, text := range files {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s has a secret: %s", name, text)
		}
	}
	wrong := map[string]string{"version.json": "get " + doorAPI + "networkversions",
		"topology.json": "read networktopologies", "kubernetes/addresspools.jsonl": "addresspools",
		"logs/kube-system/bad/weft.previous.log": "bad/log",
		"metrics/l2":                             "away", "metrics/": `"../x" is no Node's name`, "ovn/northbound.jsonl": "U it is gone",
		"ovn/southbound.jsonl": "read the dump southbound"}
	for _, e := range index.Entries {
		if want, fails := wrong[e.File]; fails != (e.Error != "") || !strings.Contains(e.Error, want) {
			t.Errorf("%s: %q, want %q", e.File, e.Error, want)
		}
		delete(wrong, e.File)
	}
	if len(wrong) > 0 || told != len(index.Entries) || !index.Incomplete() {
		t.Errorf("nobody is told of %v: %d of %d", wrong, told, len(index.Entries))
	}
	if _, there := files["case/index.json"]; !there || len(files) != len(index.Entries)-6 {
		t.Errorf("%d files for %+v", len(files), index.Entries)
	}
}

// TestTimeAndSizeAreBounded: an archive ends whatever comes.
func TestTimeAndSizeAreBounded(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	collector := Collector{Kubernetes: cluster(t, nil), Folder: "case", Progress: func(Entry) {}}
	index, err := collector.Collect(over, &out)
	if err != nil || !index.Incomplete() || nodetest.Untar(t, &out)["case/index.json"] == "" {
		t.Errorf("the time is over: %v, %+v", err, index)
	}
	out.Reset()
	a := newArchive(&out, "case", time.Now())
	a.left = 10
	for _, want := range []int64{8, 0} { // there is room for one, and then for none
		entry, err := a.add("x", func(w io.Writer) error {
			_, first := io.WriteString(w, "12345678")
			_, second := io.WriteString(w, "12345678")
			return errors.Join(first, second)
		})
		if err != nil || !strings.Contains(entry.Error, errFull.Error()) || entry.Bytes != want {
			t.Errorf("%v, %+v, want %d bytes", err, entry, want)
		}
	}
	if err := a.end(Index{}); err != nil || len(nodetest.Untar(t, &out)) != 2 {
		t.Errorf("the archive does not end: %v", err)
	}
	if text, err := tail(strings.NewReader(strings.Repeat("a", 1<<20)+"end"), 5); err != nil || string(text) != "aaend" {
		t.Errorf("the tail is %q, %v", text, err)
	}
}
