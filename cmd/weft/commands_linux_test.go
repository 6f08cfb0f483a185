package main

import (
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandsRefuseWhatTheyCannotWorkWith runs the real commands; none gets as far as a connection.
func TestCommandsRefuseWhatTheyCannotWorkWith(t *testing.T) {
	for _, c := range []struct {
		args, want string // want: words that the error has
	}{
		{"controller", "ovn-northbound pod-cidrs service-cidrs"},
		{"controller --ovn-northbound=unix:/x --pod-cidrs=10.0.0.0/8 --service-cidrs=10.96.0.0/16",
			"pod-cidrs service-cidrs 10.0.0.0/8 10.96.0.0/16 overlaps"},
		{"controller --ovn-northbound=unix:/x --pod-cidrs=10.0.0.0/33 --service-cidrs=nonsense",
			"pod-cidrs 10.0.0.0/33 service-cidrs nonsense"},
		{"controller --ovn-northbound=http://x --pod-cidrs=10.0.0.0/8 --service-cidrs=172.16.0.0/16", "ovn-northbound http"},
		{"controller --ovn-northbound=ssl:192.0.2.1:6641 --pod-cidrs=10.0.0.0/8 --service-cidrs=172.16.0.0/16",
			"ovn-ca ovn-certificate ovn-private-key"},
		{"node --node-name=l1", "ovn-southbound encap-address"},
		{"node --node-name=l1 --ovn-southbound=bar --encap-address=there --encap-type=vxlan",
			"ovn-southbound bar encap-address there encap-type vxlan"},
		{"node --node-name=l1 --ovn-southbound=tcp:192.0.2.1:6642 --encap-address=192.0.2.2 --gateway-addresses=172.31.0.1",
			"gateway-addresses 172.31.0.1"},
		{"node --node-name=l1 --ovn-southbound=tcp:192.0.2.1:6642 --encap-address=192.0.2.2 --datapath-type=dpdk",
			"datapath-type dpdk"},
		{"chassis --identity=A --run-dir=here --ovn-controller=/no/such",
			"identity run-dir ovn-controller /no/such tunnel-ca tunnel-certificate tunnel-private-key"},
		{"chassis --identity=a --ovn-controller=/bin/true --tunnel-secret=weft --lease-duration=1s --zone=a.b",
			"tunnel-secret NAMESPACE/NAME lease-duration zone a.b"},
	} {
		t.Run(c.args, func(t *testing.T) {
			_, err := refused(t, strings.Fields(c.args)...)
			for word := range strings.FieldsSeq(c.want) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("no word of %s in:\n%v", word, err)
				}
			}
		})
	}
}

// refused is a command that ends with an error, and the error.
func refused(t *testing.T, args ...string) (*cobra.Command, error) {
	t.Helper()
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	cmd, err := root.ExecuteContextC(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	return cmd, err
}

// TestRequiredKeysAreSaidToBe: the keys that a program without any complains of are those whose meaning says
// "required".
func TestRequiredKeysAreSaidToBe(t *testing.T) {
	complaint := regexp.MustCompile(`(?m)^([a-z-]+): `)
	for _, args := range [][]string{{"chassis", "--ovn-controller=/bin/true"}, {"controller"}, {"node"}, {"observe"},
		{"southbound"}} {
		cmd, err := refused(t, args...)
		complained, said := map[string]bool{}, map[string]bool{}
		for _, found := range complaint.FindAllStringSubmatch(err.Error(), -1) {
			complained[found[1]] = true
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.Contains(f.Usage, "(required") {
				said[f.Name] = true
			}
		})
		if got, want := slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(complained)); len(want) == 0 ||
			!slices.Equal(got, want) {
			t.Errorf("weft %s needs the keys %v, and says so of %v", args[0], want, got)
		}
	}
}
