package hns

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestReadCall(t *testing.T) {
	for text, want := range map[string]call{
		"HNSCall - 0 5\nhello":   {"HNSCall", "", 0, "hello"},
		"HcnOpen ABC ff 0\nrest": {"HcnOpen", "ABC", 255, ""},
	} {
		got, err := readCall(bufio.NewReader(strings.NewReader(text)))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\n", "HNSCall - 0\n", "HNSCall - 0 9\nshort", "HNSCall - 0 -1\n", "HNSCall - x 0\n",
		"HNSCall - 0 9999999\n",
		strings.Repeat("x", 1<<16)} {
		if got, err := readCall(bufio.NewReader(strings.NewReader(text))); !errors.Is(err, ErrBadCall) {
			t.Errorf("%.20q: %+v, %v", text, got, err)
		}
	}
}

func FuzzReadCall(f *testing.F) {
	f.Add([]byte("HcnDeleteEndpoint 22222222-2222-3333-4444-555555555555 1a 2\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readCall(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		if len(c.body) > maxBody || strings.ContainsAny(c.function, " \n") {
			t.Errorf("%q is read as %+v", data, c)
		}
	})
}

// FuzzCall has HNS answer whatever it is asked, and keep a state that it can read again.
func FuzzCall(f *testing.F) {
	for _, function := range []string{"HcnCreateNetwork", "HcnCreateEndpoint", "HcnCreateNamespace", "HcnModifyNamespace",
		"HcnModifyEndpoint", "HcnModifyNetwork",
		"HcnCreateLoadBalancer", "HcnEnumerateEndpoints", "HNSCall"} {
		f.Add(function, "", transparent("weft", "Ethernet"))
		f.Add(function, "11111111-2222-3333-4444-555555555555", membership("11111111-2222-3333-4444-555555555555", "Add"))
		f.Add(function, "", `{"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6,"InternalPort":80}}],"IpConfigurations":[{"IpAddress":"10.0.0.1","PrefixLength":24}]}`)
	}
	f.Add("HNSCall", "", "POST\n/networks/\n"+transparent("weft", "Ethernet"))
	f.Add("HNSCall", "", "GET\n/globals/version\n")
	f.Fuzz(func(t *testing.T, function, id, body string) {
		state := t.TempDir() + "/state.json"
		s, err := New(Config{StateFile: state})
		if err != nil {
			t.Fatal(err)
		}
		network := must(t, s, "HcnCreateNetwork", "", 0, transparent("own", "Ethernet 2"))
		space := must(t, s, "HcnCreateNamespace", "", 0, `{}`)
		for _, handle := range []uint64{0, open(t, s, "Network", network), open(t, s, "Namespace", space)} {
			s.Call(function, id, handle, body)
		}
		before := strip(control(t, s, "state"))
		again, err := New(Config{StateFile: state})
		if err != nil {
			t.Fatal(err)
		}
		if after := strip(control(t, again, "state")); before != after {
			t.Errorf("the state was\n%s\nand is\n%s", before, after)
		}
	})
}

func TestWriteReply(t *testing.T) {
	out, failure := "out", ""
	for _, test := range []struct {
		reply Reply
		want  string
	}{
		{Reply{}, "0 0 -1 -1\n"},
		{Reply{Handle: 16, Out: &out}, "0 10 3 -1\nout"},
		{Reply{Status: ErrNetworkNotFound, Err: &failure}, "803b0001 0 -1 0\n"},
	} {
		var text bytes.Buffer
		if err := writeReply(&text, test.reply); err != nil || text.String() != test.want {
			t.Errorf("%s: %q, %v", fmt.Sprint(test.reply), text.String(), err)
		}
	}
}
