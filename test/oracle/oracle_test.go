package oracle

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/klog/v2"
)

var (
	seed  = flag.Uint64("seed", 0, "what the cases follow from; 0: another one each time")
	first = flag.Uint64("first", 0, "the number of the first case")
	cases = flag.Uint64("cases", 2000, "how many cases there are")
)

// packets are so many of a case.
const packets = 40

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(new(strings.Builder))
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	os.Exit(m.Run())
}

// TestRowsJudgeAsOracles makes up scenes and packets, and asks everybody. Every third scene has
// ClusterNetworkPolicies.
func TestRowsJudgeAsOracles(t *testing.T) {
	t.Logf("-seed %d -first %d -cases %d", *seed, *first, *cases)
	var next, asked, refused, failed atomic.Uint64
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			knp := newKubeNetworkPolicies()
			for failed.Load() < 3 {
				number := next.Add(1) - 1
				if number >= *cases {
					return
				}
				number += *first
				g := newGenerator(*seed, number)
				s := g.scene(number%3 == 2)
				var ks []connection
				for range packets {
					ks = append(ks, g.connection(s))
				}
				found := dispute(t, knp, s, ks, func(rows bool) {
					if asked.Add(1); !rows {
						refused.Add(1)
					}
				})
				if found != "" {
					failed.Add(1)
					s, k := shrink(t, knp, s, ks)
					t.Errorf("-seed %d -first %d -cases 1: made small:\n%s\n%s", *seed, number, s, dispute(t, knp, s, []connection{k},
						nil))
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d packets, %d of them refused", asked.Load(), refused.Load())
	if share := float64(refused.Load()) / float64(asked.Load()); !t.Failed() && *cases > 100 &&
		(share < 0.2 || share > 0.8) {
		t.Errorf("%.0f%% of the packets are refused: the cases tell too little", share*100)
	}
}

// dispute is what opinions differ in about a scene, "" if in nothing.
func dispute(t testing.TB, knp *kubeNetworkPolicies, s *scene, ks []connection, count func(bool)) string {
	c, err := newCourt(s, knp)
	if err != nil {
		return err.Error()
	}
	for _, k := range ks {
		p := c.packet(k)
		if p == nil {
			continue
		}
		rows, others := c.judge(t, p)
		if count != nil {
			count(rows.Allowed)
		}
		if len(rows.Unread)+len(rows.Ambiguous) > 0 {
			return fmt.Sprintf("%v: unread %v, ambiguous %v", k, rows.Unread, rows.Ambiguous)
		}
		for _, o := range others {
			if o.allowed != rows.Allowed {
				return fmt.Sprintf("%v: from %s to %s: the rows allow: %t, by\n%s%v", k, p.from.address, p.to.address, rows.Allowed,
					steps(rows), others)
			}
		}
	}
	return ""
}
