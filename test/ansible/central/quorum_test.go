//go:build ansible

package central

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// question is what quorum.py is asked, of one database.
type question struct {
	Leaving   string              `json:"leaving"`
	Former    bool                `json:"former,omitempty"`
	Protocol  string              `json:"protocol"`
	Hosts     map[string]string   `json:"hosts"`
	Databases []database          `json:"databases"`
	Clusters  map[string][]result `json:"clusters"`
}

type database struct {
	Key      string `json:"key"`
	Name     string `json:"name"`
	RaftPort int    `json:"raft_port"`
}

type result struct {
	Stdout string `json:"stdout"`
}

// answer is quorum.py's.
type answer struct {
	Problems []string           `json:"problems"`
	At       map[string]*string `json:"at"`
}

func ask(t *testing.T, q question) answer {
	t.Helper()
	stdin, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", filepath.Join(ovsdbtest.Repository(), "ansible/roles/ovn_central/files/quorum.py"))
	cmd.Stdin = strings.NewReader(string(stdin))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("quorum.py: %v: %s", err, out)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("quorum.py says %s: %v", out, err)
	}
	return a
}

func address(host int) string { return fmt.Sprintf("192.0.2.%d", host) }

// view is what the server of one host says of a cluster: cluster/status of OVN 25.03.
type view struct {
	self, leader int         // 0: none
	members      int         // hosts 1, 2, …
	heard        map[int]int // milliseconds since a member's last message
	timer        int
	led          int // milliseconds since it has won its election; 0: it does not say
}

func (v view) String() string {
	nickname := func(host int) string { return fmt.Sprintf("%04x", 0xa0+host) }
	role, leader := "follower", nickname(v.leader)
	switch v.leader {
	case v.self:
		role, leader = "leader", "self"
	case 0:
		role, leader = "candidate", "unknown"
	}
	if v.timer == 0 {
		v.timer = 1000
	}
	text := fmt.Sprintf("%s\nName: OVN_Northbound\nAddress: ssl:%s:6643\nStatus: cluster member\nRole: %s\nTerm: "+
		"1\nLeader: %s\nVote: unknown\n\nElection timer: %d\nLog: [2, 5]\nServers:\n",
		nickname(v.self), address(v.self), role, leader, v.timer)
	if v.led != 0 {
		text = strings.Replace(text, "\nElection timer:", fmt.Sprintf("Last Election won: %d ms ago\nElection timer:", v.led),
			1)
	}
	for host := 1; host <= v.members; host++ {
		text += fmt.Sprintf("    %s (%[1]s at ssl:%s:6643)", nickname(host), address(host))
		if host == v.self {
			text += " (self)"
		}
		if ms, heard := v.heard[host]; heard {
			text += fmt.Sprintf(" next_index=5 match_index=4 last msg %d ms ago", ms)
		}
		text += "\n"
	}
	return text
}

func of(leaving int, hosts int, views ...view) question {
	q := question{
		Leaving: fmt.Sprintf("c%d", leaving), Protocol: "ssl", Hosts: map[string]string{},
		Databases: []database{{"nb", "OVN_Northbound", 6643}}, Clusters: map[string][]result{},
	}
	for host := 1; host <= hosts; host++ {
		q.Hosts[fmt.Sprintf("c%d", host)] = address(host)
	}
	for _, v := range views {
		q.Clusters[fmt.Sprintf("c%d", v.self)] = []result{{v.String()}}
	}
	return q
}

// TestMajorities asks of clusters of one to five members, with each number of them alive, whether one may leave: the
// first host, which lives or not.
func TestMajorities(t *testing.T) {
	for members := 1; members <= 5; members++ {
		for others := range members {
			for _, lives := range []bool{true, false} {
				alive := others
				if lives {
					alive++
				}
				leader := 0
				if alive > members/2 { // the last one that lives
					leader = others + 1
				}
				var views []view
				for host := 2; host <= others+1; host++ {
					views = append(views, view{self: host, leader: leader, members: members})
				}
				said := ask(t, of(1, members, views...))
				// What Raft asks for: a leader, who has the majority of those that remain.
				want := leader > 1 && others > (members-1)/2
				if got := len(said.Problems) == 0; got != want {
					t.Errorf("of %d members, with %d others alive and itself alive %t, one may leave: %t, %v", members, others, lives,
						got, said.Problems)
				}
				if at := said.At["OVN_Northbound"]; want && (at == nil || *at != fmt.Sprintf("c%d", leader)) {
					t.Errorf("of %d members with %d others alive not the leader, c%d, is asked: %v", members, others, leader, said)
				}
			}
		}
	}
}

// TestAFormerSelfIsDead: a host takes its former self's place, and nobody else's.
func TestAFormerSelfIsDead(t *testing.T) {
	twice := of(2, 3, view{self: 1, leader: 1, members: 3, heard: map[int]int{3: 100}})
	twice.Hosts["c4"] = address(2)
	for _, test := range []struct {
		name string
		q    question
		at   string
		says string
	}{
		{"dead for a minute", of(2, 3, view{self: 1, leader: 1, members: 3, heard: map[int]int{2: 60000, 3: 100}},
			view{self: 3, leader: 1, members: 3}), "c1", ""},
		{"never heard of by a new leader", of(2, 3, view{self: 3, leader: 3, members: 3, heard: map[int]int{1: 100}},
			view{self: 1, leader: 3, members: 3}), "c3", ""},
		{"never heard of by a leader of a minute",
			of(2, 3, view{self: 3, leader: 3, members: 3, led: 60000, heard: map[int]int{1: 100}},
				view{self: 1, leader: 3, members: 3}), "c3", ""},
		{"not heard of yet", of(2, 3, view{self: 3, leader: 3, members: 3, led: 300, heard: map[int]int{1: 100}},
			view{self: 1, leader: 3, members: 3}), "",
			"the leader is one for 300 ms alone"},
		{"heard of", of(2, 3, view{self: 1, leader: 1, members: 3, heard: map[int]int{2: 300, 3: 100}},
			view{self: 3, leader: 1, members: 3}), "", "was heard of 300 ms ago"},
		{"heard of within long timers", of(2, 3, view{self: 1, leader: 1, members: 3, heard: map[int]int{2: 15000, 3: 100},
			timer: 4000}, view{self: 3, leader: 1, members: 3}), "",
			"wait until it was silent for 40 s"},
		{"the leader", of(2, 3, view{self: 1, leader: 2, members: 3}, view{self: 3, leader: 2, members: 3}), "",
			"lives: it leads it"},
		{"the leader is not asked", of(2, 3, view{self: 1, leader: 3, members: 3}), "",
			"its leader at ssl:192.0.2.3:6643 alone knows whether that one lives"},
		{"no leader", of(2, 3, view{self: 1, members: 3}), "", "no host that stays (c1) serves it with a leader"},
		{"another host's address", twice, "", "c2 and c4 would both be its member at ssl:192.0.2.2:6643"},
		{"no former self", of(4, 4, view{self: 1, leader: 1, members: 3}), "", ""},
		{"one dead beside", of(5, 5, view{self: 1, leader: 1, members: 5, heard: map[int]int{2: 1, 3: 1, 4: 60000, 5: 60000}},
			view{self: 2, leader: 1, members: 5}, view{self: 3, leader: 1, members: 5}), "c1", ""},
		{"others take no part", of(3, 3, view{self: 1, leader: 1, members: 3, heard: map[int]int{2: 1, 3: 60000}}), "",
			"without c3 it has 2 members, of which 2 must serve it; c2 would not"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.q.Former = true
			said := ask(t, test.q)
			at := ""
			if host := said.At["OVN_Northbound"]; host != nil {
				at = *host
			}
			if problems := strings.Join(said.Problems, "; "); at != test.at || (problems == "") != (test.says == "") ||
				!strings.Contains(problems, test.says) {
				t.Errorf("%q is asked, want %q; the problems are %q, want %q", at, test.at, problems, test.says)
			}
		})
	}
}

// TestAHostOfTwoNamesDoesNotLeave: the other one would be taken out.
func TestAHostOfTwoNamesDoesNotLeave(t *testing.T) {
	q := of(3, 3, view{self: 1, leader: 1, members: 3}, view{self: 2, leader: 1, members: 3})
	q.Hosts["c4"] = address(3)
	q.Leaving = "c4"
	if said := ask(t, q); len(said.Problems) != 1 || !strings.Contains(said.Problems[0],
		"c3 and c4 would both be its member") {
		t.Errorf("c4 may leave by the address of c3: %v", said)
	}
}
