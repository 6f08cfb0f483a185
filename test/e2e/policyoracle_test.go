//go:build cluster

package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftnet/weft/test/lab/labtest"
)

var (
	policySeed = flag.Uint64("policy-seed", 0, "what TestPacketsAgreeWithPolicyOracles makes up follows from; 0: "+
		"another one each time")
	policySets = flag.Uint64("policy-sets", 3, "how many sets of policies TestPacketsAgreeWithPolicyOracles has, ten "+
		"times as many with -thorough")
)

// verdict is what the oracles of test/oracle say of a connection from a pod to another one.
type verdict struct {
	From, To string // namespace/name
	Address  netip.Addr
	Protocol string
	Port     int
	Allowed  bool
}

func (v verdict) url() string {
	if v.Protocol == "UDP" {
		return udpURL(v.Address, v.Port, "hostname")
	}
	return httpURL(v.Address, v.Port, "hostname")
}

func (v verdict) String() string {
	return fmt.Sprintf("%s to %s, %s %s; the oracles allow it: %t", v.From, v.To, v.Protocol,
		netip.AddrPortFrom(v.Address, uint16(v.Port)), v.Allowed)
}

// TestPacketsAgreeWithPolicyOracles makes up pods and sets of policies, and has each pod ask all ports of the others:
// what two implementations that share nothing with Weft allow passes, and nothing else does.
func TestPacketsAgreeWithPolicyOracles(t *testing.T) {
	t.Parallel()
	long(t)
	seed, sets := *policySeed, *policySets
	if seed == 0 {
		seed = rand.Uint64()
	}
	if *thorough {
		sets *= 10
	}
	t.Logf("-policy-seed %d", seed)
	on := []string{"l1", "l2", "w1"}
	cluster.Apply(t, judge(t, "", "-seed", fmt.Sprint(seed), "-nodes", strings.Join(on, ","), "-image", image, "pods"))
	cluster.Kubectl(t, "wait", "-A", "-l", "policy-oracle", "--for=condition=Ready", "--timeout=120s", "pod")
	_, all := madeUp(t)
	inside := map[string]place{}
	for _, o := range all {
		if o.Kind == "Pod" {
			inside[o.name()] = place{o.Spec.NodeName, podNamespace(t, o.Spec.NodeName, o.Status.PodIP)}
		}
	}
	for set := range sets {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			policies := judge(t, "", "-seed", fmt.Sprint(seed), "-set", fmt.Sprint(set), "policies")
			cluster.Apply(t, policies)
			defer func() {
				if t.Failed() {
					t.Logf("-policy-seed %d, set %d:\n%s", seed, set, policies)
				}
			}()
			list, all := madeUp(t)
			areInForce(t, all, on)
			agree(t, inside, verdictsOn(t, list))
		})
	}
}

// judge runs test/oracle's program.
func judge(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(repository(), "bin/judge"), args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("judge %q: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// madeUpObject is one that judge has made up.
type madeUpObject struct {
	Kind     string
	Metadata struct{ Namespace, Name string }
	Spec     struct{ NodeName string }
	Status   struct{ PodIP netip.Addr }
}

func (o madeUpObject) name() string { return o.Metadata.Namespace + "/" + o.Metadata.Name }

// madeUp are all of these, and the API server's list of them.
func madeUp(t testing.TB) (list string, all []madeUpObject) {
	t.Helper()
	list = cluster.Kubectl(t, "get", "namespaces,pods,networkpolicies,clusternetworkpolicies", "-A", "-l", "policy-oracle",
		"-o", "json")
	var l struct{ Items []madeUpObject }
	if err := json.Unmarshal([]byte(list), &l); err != nil {
		t.Fatal(err)
	}
	return list, l.Items
}

// madeUpOwner is one of ACLs of a policy that judge has made up, by the names that it gives.
var madeUpOwner = regexp.MustCompile(`(NetworkPolicy/oracle-\S+|ClusterNetworkPolicy/cnp\S+)`)

// areInForce waits until these policies are, and none of former sets: in the Northbound, in the flows of all nodes, and
// in what the datapaths of some have cached of these.
func areInForce(t testing.TB, all []madeUpObject, on []string) {
	t.Helper()
	owners := map[string]bool{}
	for _, o := range all {
		switch o.Kind {
		case "NetworkPolicy":
			tenancy{name: o.Metadata.Namespace}.says(t, o.Metadata.Name, "InForce")
			owners["NetworkPolicy/"+o.name()] = true
		case "ClusterNetworkPolicy":
			ready(t, o.Metadata.Name, "True", "InForce")
			owners["ClusterNetworkPolicy/"+o.Metadata.Name] = true
		}
	}
	eventually(t, inForce, "the Northbound has no ACL of a former set", func() error {
		acls, err := cluster.Try("nbctl", "--", "--data=bare", "--no-headings", "--columns=external_ids", "find", "ACL")
		for _, owner := range madeUpOwner.FindAllString(acls, -1) {
			if !owners[owner] {
				return fmt.Errorf("it has one of %s", owner)
			}
		}
		return err
	})
	cluster.Must(t, "nbctl", "--", "--timeout=60", "--wait=hv", "sync")
	for _, node := range on {
		cluster.On(t, node, "ovs-appctl", "--timeout=60", "revalidator/wait")
	}
}

// verdictsOn a list of the API server's are those of all connections between its pods, by the client.
func verdictsOn(t testing.TB, list string) map[string][]verdict {
	t.Helper()
	verdicts := map[string][]verdict{}
	allowed, all := 0, 0
	for line := range strings.Lines(judge(t, list, "verdicts")) {
		var v verdict
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		verdicts[v.From] = append(verdicts[v.From], v)
		if all++; v.Allowed {
			allowed++
		}
	}
	t.Logf("of %d connections %d are allowed", all, allowed)
	return verdicts
}

// agree has each client ask. What is refused passes at no time, and what is allowed passes in the end.
func agree(t testing.TB, inside map[string]place, verdicts map[string][]verdict) {
	t.Helper()
	var clients sync.WaitGroup
	for client, list := range verdicts {
		clients.Go(func() {
			by, want := map[string]verdict{}, map[string]bool{}
			for _, v := range list {
				by[v.url()], want[v.url()] = v, v.Allowed
			}
			asked := newTrial(inside[client], want)
			var wrong []reply
			err := labtest.Poll(inForce, func() (err error) {
				wrong, err = asked.round()
				if slices.ContainsFunc(wrong, func(r reply) bool { return len(r.Answers) > 0 }) {
					return nil // what is refused has passed: told below
				}
				return err
			})
			for _, r := range wrong {
				t.Errorf("%s; the packets say: %s", by[r.URL], r)
			}
			if err != nil {
				t.Errorf("%s: %v", client, err)
			}
		})
	}
	clients.Wait()
}
