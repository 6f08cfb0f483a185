package status

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestVersionsAreWhatEachSaysOfItself, and what cannot be read does not hide the rest.
func TestVersionsAreWhatEachSaysOfItself(t *testing.T) {
	lease := func(holder, version string) string {
		return fmt.Sprintf(`{"metadata": {"labels": {"weft.net/version": %q}}, "spec": {"holderIdentity": %q}}`, version,
			holder)
	}
	northbound := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	ovsdbtest.Northd(t, northbound, ovsdbtest.Server(t, ovsdbtest.Southbound(t)))
	sources := &Sources{DoorNamespace: "doors",
		Northbound: ovsdb.Config{Endpoints: northbound.Endpoint, Logger: ovsdbtest.Logger(t)},
		Nodes: func() []*corev1.Node {
			return []*corev1.Node{nodeObject("w1", contract.NodeFacts{}, "10.244.1.0/24"),
				nodeObject("l1", contract.NodeFacts{Version: "1.2.0", OpenVSwitch: "3.5.0"}, "10.244.0.0/24")}
		},
		Kubernetes: serving(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			items := ""
			switch q := r.URL.Query(); {
			case strings.Contains(r.URL.Path, "/namespaces/doors/"):
				items = lease("c2", "1.1.0") + "," + lease("c1", "1.2.0")
			case q.Get("fieldSelector") == "metadata.name=weft-controller":
				items = lease("c2", "1.2.0")
			default:
				w.WriteHeader(http.StatusForbidden)
			}
			fmt.Fprintf(w, `{"metadata": {}, "items": [%s]}`, items)
		})}
	nodetest.Eventually(t, nodetest.Patience, func() error {
		v := sources.Versions(t.Context()).Items[0]
		if v.OVN == "" {
			return fmt.Errorf("ovn-northd has not said who it is: %+v", v)
		}
		v.OVN = ""
		if got, want := fmt.Sprint(v.Controller, v.Doors, v.ChassisHosts, v.Nodes),
			"{c2 1.2.0} [{c1 1.2.0} {c2 1.1.0}] [] [{l1 linux 1.2.0 3.5.0} {w1 linux  }]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if len(v.Unread) != 1 || v.Unread[0].Source != "the chassis hosts' Leases" {
			t.Errorf("not read: %v", v.Unread)
		}
		return nil
	})
}
