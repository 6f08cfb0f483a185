package contract

import (
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

func TestFiltersOfCaptures(t *testing.T) {
	for text, want := range map[string]api.CaptureFilter{
		"":                                   {},
		"tcp":                                {Protocol: "tcp"},
		"udp port 53":                        {Protocol: "udp", Port: 53},
		"tcp and host 10.0.0.1 and port 443": {Protocol: "tcp", Address: "10.0.0.1", Port: 443},
		"port 80 host fd00::1":               {Address: "fd00::1", Port: 80},
	} {
		if got, err := ParseCaptureFilter(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"tcp or udp": "understood", "not tcp": "understood", "tcp and": "understood", "and tcp": "understood",
		"tcp and and port 1": "understood", "tcp udp": "understood", "host": "ends after", "port web": "no port",
		"port 0": "no port", "port 65536": "no port", "host web": "no IP address", "icmp port 7": "no ports",
		"arp and host fd00::1": "use icmp", "port 80 port 81": "understood", "host 10.0.0.1/8": "no IP address",
	} {
		if got, err := ParseCaptureFilter(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error about %q", text, got, err, want)
		}
	}
}

// FuzzCaptureFilter: what is understood means the same when it is read once more.
func FuzzCaptureFilter(f *testing.F) {
	f.Add("tcp and host 10.0.0.1 and port 443")
	f.Add("port 80 host fd00::1")
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseCaptureFilter(text)
		if err != nil {
			return
		}
		if again, err := ParseCaptureFilter(filter.String()); err != nil || again != filter {
			t.Errorf("%q is %+v, and %q is %+v, %v", text, filter, filter.String(), again, err)
		}
	})
}
