package dpctl

import (
	"slices"
	"strings"
	"testing"
)

// Answers are those of Open vSwitch 3.1.0 and 3.5.0, cut.
func TestParseShow(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         []Datapath
		wrong        string // a word of the error
	}{
		{"none", "", nil, ""},
		{"two", `system@ovs-system:
  lookups: hit:10 missed:4 lost:1
  flows: 3
  masks: hit:15 total:2 hit/pkt:1.07
  cache: hit:9 hit-rate:64.29%
  caches:
    masks-cache: size:256
  port 0: ovs-system (internal)
  port 1: flows: (internal)
netdev@ovs-netdev:
  lookups: hit:0 missed:0 lost:0
  flows: 0
`, []Datapath{{"system@ovs-system", 10, 4, 1, 3}, {Name: "netdev@ovs-netdev"}}, ""},
		{"without statistics", "system@ovs-system:\n  port 0: ovs-system (internal)\n",
			[]Datapath{{Name: "system@ovs-system"}}, ""},
		{"lines as Windows has them", "system@ovs-system:\r\n  lookups: hit:1 missed:2 lost:0\r\n  flows: 1\r\n",
			[]Datapath{{"system@ovs-system", 1, 2, 0, 1}}, ""},
		{"cut off", "system@ovs-system:\n  lookups: hit:1 missed:", nil, "system@ovs-system"},
		{"other counts", "system@ovs-system:\n  lookups: 7\n", nil, `"  lookups: 7"`},
		{"no number", "system@ovs-system:\n  flows: many\n", nil, "many"},
		{"no datapath", "  flows: 7\n", nil, "of no datapath"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseShow(c.answer)
			if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) ||
				!slices.Equal(got, c.want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestWhatCountersSay(t *testing.T) {
	for _, c := range []struct {
		name       string
		datapath   Datapath
		lost, used bool
	}{
		{"no packet yet", Datapath{}, false, false},
		{"all lost", Datapath{Missed: 600, Lost: 600}, true, false},
		{"packets that flows sent to ovs-vswitchd were lost, too", Datapath{Missed: 600, Lost: 601}, true, false},
		{"one was heard of", Datapath{Missed: 601, Lost: 600}, false, true},
		{"most are lost, and flows are there", Datapath{Hit: 1, Missed: 600, Lost: 600}, false, true},
		{"none is lost", Datapath{Hit: 9, Missed: 3}, false, true},
	} {
		if c.datapath.UpcallsLost() != c.lost || c.datapath.Used() != c.used {
			t.Errorf("%s: lost %t, used %t", c.name, c.datapath.UpcallsLost(), c.datapath.Used())
		}
	}
}

// FuzzParseShow: a datapath has a line of the answer, and none is used that has lost all.
func FuzzParseShow(f *testing.F) {
	for _, text := range []string{"a:\n  lookups: hit:1 missed:2 lost:3\n  flows: 4\n", ":", "a:\nlookups: hit:", "",
		"a:\n  flows: 99999999999999999999", "a:\n  lookups: hit:-1 missed:0 lost:0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		datapaths, err := ParseShow(text)
		if err != nil && datapaths != nil || len(datapaths) > strings.Count(text, ":") {
			t.Fatalf("%q: %+v, %v", text, datapaths, err)
		}
		for _, d := range datapaths {
			if d.UpcallsLost() && d.Used() || !strings.Contains(text, d.Name+":") {
				t.Fatalf("%q: %+v", text, d)
			}
		}
	})
}
