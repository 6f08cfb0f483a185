package ovntrace

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is read now of the outputs in testdata")

// read is what a trace says, a line each.
func read(trace *Trace) string {
	var b strings.Builder
	for _, v := range trace.Visits {
		fmt.Fprintf(&b, "%s of %s, %q -> %q", v.Pipeline, v.Datapath, v.Inport, v.Outport)
		if v.Aside {
			b.WriteString(", another packet")
		}
		if v.Instead != "" {
			fmt.Fprintf(&b, ", %s in its place", v.Instead)
		}
		fmt.Fprintf(&b, ", %d flows\n", len(v.Flows))
		for i := range v.Flows {
			f := &v.Flows[i]
			if list := f.Endpoints(); len(list) > 0 {
				fmt.Fprintf(&b, "  %s chooses among %v\n", f.Stage, list)
			}
			if addr, source, ok := f.Translation(); ok {
				fmt.Fprintf(&b, "  %s translates to %s, its source: %t\n", f.Stage, addr, source)
			}
			if f.Drops() {
				fmt.Fprintf(&b, "  %s drops it\n", f.Stage)
			}
		}
		if n := len(v.Flows); n > 0 {
			f := v.Flows[n-1]
			fmt.Fprintf(&b, "  last: %d %s, %d, %s, %q\n", f.Table, f.Stage, f.Priority, f.UUID, f.Match)
		}
		for _, out := range v.Outputs {
			fmt.Fprintf(&b, "  to %s of type %q\n", out.Port, out.Type)
		}
	}
	return b.String()
}

// TestParseRealOutput reads what ovn-trace of OVN 25.03 has printed of Weft's topology.
func TestParseRealOutput(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d outputs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			trace, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			got, golden := read(trace), strings.TrimSuffix(file, ".txt")+".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestParseNothing: an output without a pipeline is an error that shows it.
func TestParseNothing(t *testing.T) {
	for _, text := range []string{"", "# tcp\n", "2026-11-26T03:00:00Z|00001|ovntrace|WARN|no such port\n"} {
		if trace, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, trace)
		}
	}
}

// TestMulticastMembers: what follows from a member of a group is about the packet.
func TestMulticastMembers(t *testing.T) {
	trace, err := Parse(`
ingress(dp="ext", inport="etor")
--------------------------------
28. ls_in_l2_lkup (northd.c:1): eth.mcast, priority 70, uuid 00000001
    outport = "_MC_flood";
    output;

multicast(dp="ext", mcgroup="_MC_flood")
----------------------------------------

    egress(dp="ext", inport="etor", outport="other")
    ------------------------------------------------
        11. ls_out_check_port_sec (northd.c:1): 1, priority 0, uuid 00000002
            /* output to "other", type "patch" */

        ingress(dp="router", inport="rtoe")
        -----------------------------------
         0. lr_in_admission: no match (implicit drop)

    egress(dp="ext", inport="etor", outport="localnet")
    ---------------------------------------------------
        11. ls_out_check_port_sec (northd.c:1): 1, priority 0, uuid 00000002
            /* output to "localnet", type "localnet" */
`)
	if err != nil {
		t.Fatal(err)
	}
	want := `ingress of ext, "etor" -> "", 1 flows
  last: 28 ls_in_l2_lkup, 70, 00000001, "eth.mcast"
egress of ext, "etor" -> "other", 1 flows
  last: 11 ls_out_check_port_sec, 0, 00000002, "1"
  to other of type "patch"
ingress of router, "rtoe" -> "", 1 flows
  lr_in_admission drops it
  last: 0 lr_in_admission, 0, , ""
egress of ext, "etor" -> "localnet", 1 flows
  last: 11 ls_out_check_port_sec, 0, 00000002, "1"
  to localnet of type "localnet"
`
	if got := read(trace); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzParse: any output is read or refused, and what is read fits its fields.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := Parse(text)
		if err != nil {
			return
		}
		for _, v := range trace.Visits {
			if v.Pipeline != "ingress" && v.Pipeline != "egress" || v.Aside && v.Instead != "" {
				t.Errorf("%+v", v)
			}
			for _, flow := range v.Flows {
				if flow.UUID != "" && len(flow.UUID) != 8 || flow.Table < 0 || flow.Priority > 99999 {
					t.Errorf("%+v", flow)
				}
			}
		}
		for _, at := range trace.Endpoints() {
			if !at.Addr().IsValid() {
				t.Errorf("endpoint %v", at)
			}
		}
	})
}
