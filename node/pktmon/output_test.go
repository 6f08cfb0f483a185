package pktmon

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const ours = `C:\ProgramData\weft\capture\weft.etl`

func TestState(t *testing.T) {
	running := func(log string) string {
		return "\r\nLogger Parameters:\r\n    Logger name:        PktMon\r\n    Logging mode:       Circular\r\n" +
			"    Log file:           " + log + "\r\n    Max file size:      512 MB\r\n\r\nPacket Filters:\r\n    None\r\n"
	}
	for name, c := range map[string]struct {
		text string
		want state
	}{
		"nothing":        {"", state{}},
		"not running":    {"Packet Monitor is not running.\r\n", state{}},
		"not in Russian": {"\r\nМонитор пакетов не запущен.\r\n\r\n", state{}},
		"ours":           {running(ours), state{running: true, ours: true, log: "Log file:           " + ours}},
		"in other letters": {running(strings.ToUpper(ours)), state{running: true, ours: true,
			log: "Log file:           " + strings.ToUpper(ours)}},
		"another's": {running(`C:\theirs.etl`), state{running: true, log: `Log file:           C:\theirs.etl`}},
		"counters":  {"\r\nCollected Data:\r\n    Packet counters\r\n", state{running: true, log: "Collected Data:"}},
	} {
		if got := readState(c.text, ours); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestFilters(t *testing.T) {
	const head = "Packet Filters:\r\n     # Name       Protocol Port\r\n     - ----       -------- ----\r\n"
	for text, want := range map[string]filters{
		"Packet Filters:\r\n    None\r\n":                                    {},
		head + "     1 WebTraffic TCP       443\r\n":                         {others: 1},
		head + "     1 weft       TCP\r\n    12 weft       UDP       53\r\n": {ours: 2},
		head + "     1 weft       TCP\r\n     2 <empty>    UDP\r\n":          {ours: 1, others: 1},
		head + "     1 weft2      TCP\r\n":                                   {others: 1},
	} {
		if got := readFilters(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestEventsLost(t *testing.T) {
	for text, want := range map[string]uint64{
		"Log file: " + ours + " (No events lost)\r\n":        0,
		"Log file: " + ours + " (17 events lost)\r\n":        17,
		"Protokolldatei: " + ours + " (Verlorene: 17)\r\n":   17,
		"Log file: " + ours + " (99999999999999999999 lost)": 0,
		"Flushing logs...": 0,
	} {
		if got := eventsLost(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestComponents(t *testing.T) {
	const list = `[{"Group":"Ethernet","Components":[{"Id":13,"Type":"Miniport","Properties":[{"Name":"ifIndex","Value":19},` +
		`{"Name":"MAC Address","Value":"0A-58-0A-F4-01-04"}]},{"Id":75,"Properties":[{"Name":"EtherType","Value":"IPv4"}]}]},` +
		`{"Group":"Pod","Components":[{"Id":20,"Properties":[{"Name":"X","Value":"0A-58-0A-F4-01-03"}]},` +
		`{"Id":21,"Properties":[{"Name":"X","Value":"0A-58-0A-F4-01-03"}]},{"Id":22}]}]`
	for name, c := range map[string]struct {
		text    string
		want    int
		problem bool
	}{
		"the first of the address": {list, 20, false}, "none": {`[{"Group":"a","Components":[]}]`, 0, false},
		"no list": {"Network Adapters:", 0, true},
	} {
		if got, err := componentOf(c.text, pod); got != c.want || (err != nil) != c.problem {
			t.Errorf("%s: %d, %v; want %d", name, got, err, c.want)
		}
	}
}

func TestArguments(t *testing.T) {
	for want, f := range map[string]Filter{
		"":                                     {},
		" --data-link ARP":                     {EtherType: "ARP"},
		" --transport-protocol TCP --port 443": {Protocol: "TCP", Port: 443},
		" --ip-address fd00::1":                {Address: netip.MustParseAddr("fd00::1")},
	} {
		got := strings.Join(f.arguments(pod), " ")
		if want = "filter add weft --mac-address 0A-58-0A-F4-01-03" + want; got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
	for _, c := range []struct {
		capture   Capture
		component int
		want      []string
	}{
		{Capture{SnapLength: 512, Bytes: 100 << 20}, 20, []string{"512", "100", "--comp 20"}},
		{Capture{Bytes: 1}, 0, []string{"0", "16", "circular"}},
		{Capture{Bytes: 1 << 40}, 0, []string{"0", "1024", "circular"}},
	} {
		got := c.capture.arguments(ours, c.component)
		if want := slices.Concat(strings.Fields("start --capture --pkt-size " + c.want[0] + " --file-name " + ours +
			" --file-size " + c.want[1] + " --log-mode circular")); !strings.HasPrefix(strings.Join(got, " "),
			strings.Join(want, " ")) || !strings.HasSuffix(strings.Join(got, " "), c.want[2]) {
			t.Errorf("%+v at %d: %q", c.capture, c.component, got)
		}
	}
}

// FuzzOutput: whatever Packet Monitor says can be read.
func FuzzOutput(f *testing.F) {
	for _, text := range []string{"", "[]", `[{"Components":[{"Id":1,"Properties":[{"Value":"a"}]}]}]`, ours + " (1 lost)",
		"1 weft", "\n\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s := readState(text, ours); s.ours && !s.running {
			t.Errorf("%q: %+v", text, s)
		}
		readFilters(text)
		eventsLost(text)
		if _, err := componentOf(text, pod); err != nil && err.Error() == "" {
			t.Errorf("%q is refused without a reason", text)
		}
	})
}
