package explain

import (
	"strings"
	"testing"
)

func TestParseQuestion(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"web", "db:5432", "prod/web -> prod/db:5432/tcp"},
		{"web", "test/db:53/UDP", "prod/web -> test/db:53/udp"},
		{"test/web", "192.0.2.1:9999/sctp", "test/web -> 192.0.2.1:9999/sctp"},
		{"2001:db8::1", "[2001:db8::2]:443", "2001:db8::1 -> [2001:db8::2]:443/tcp"},
		{"[2001:db8::1]", "[::ffff:192.0.2.1]:65535", "2001:db8::1 -> 192.0.2.1:65535/tcp"},
		{"192.0.2.1", "db:icmp", "192.0.2.1 -> prod/db:icmp"},
		{"web", "[2001:db8::2]:icmp", "prod/web -> [2001:db8::2]:icmp"},
		{"web", "svc/test/dns:53/udp", "prod/web -> svc/test/dns:53/udp"},
		{"web", "svc/dns:53/udp", "prod/web -> svc/prod/dns:53/udp"},
		{"web", "service/dns:domain", "prod/web -> svc/prod/dns:domain"},
		{"web", "svc/test/dns:domain/UDP", "prod/web -> svc/test/dns:domain/udp"},
		{"web", "svc/dns", "prod/web -> svc/prod/dns"},
		{"web.0", "pod/test/web.1:80", "prod/web.0 -> test/web.1:80/tcp"},
		{"pod/svc/web", "pod/node/web:80", "pod/svc/web -> pod/node/web:80/tcp"}, // namespaces may be called so
	} {
		q, err := ParseQuestion(c.from, c.to, "prod")
		if err != nil || q.String() != c.want {
			t.Errorf("%s %s: %s, %v", c.from, c.to, q, err)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"web", "db", "lacks a port"},
		{"web", "db:", `"" is not a port number`},
		{"web", "db:0", "from 1 to 65535"},
		{"web", "db:65536", "from 1 to 65535"},
		{"web", "db:+80", "from 1 to 65535"},
		{"web", "db:http", "from 1 to 65535"},
		{"web", "db:80/icmp", "db:icmp"},
		{"web", "db:80/", "protocol"},
		{"web", "2001:db8::1:80", "brackets"},
		{"web", "[fe80::1%eth0]:80", "zone"},
		{"web", "svc/prod/web:icmp", "no ICMP"},
		{"svc/prod/web", "db:80", "opens no connections"},
		{"svc/web", "db:80", "opens no connections"},
		{"web", "svc/db:ht_tp", "neither a port number from 1 to 65535 nor the name of a Service's port"},
		{"web", "svc/db:", "neither a port number"},
		{"web", "svc/db:http/", "protocol"},
		{"web", "node/l1:22", "give an address of the node"},
		{"a/b/c", "db:80", "neither"},
		{"Web", "db:80", "not a name"},
		{"web", ":80", "neither a pod"},
		{"192.0.2.256", "DB:80", "not a name"},
		{"/web", "db:80", "neither a pod"},
	} {
		if q, err := ParseQuestion(c.from, c.to, "prod"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %s, %v, which does not say %q", c.from, c.to, q, err, c.want)
		}
	}
}

func FuzzParseQuestion(f *testing.F) {
	for _, to := range []string{"db:5432", "svc/prod/web:80/udp", "[2001:db8::1]:icmp", "2001:db8::1", ":", "[]:",
		"a/b/c:1", "svc/web", "svc/web:http/tcp", "pod/svc/web:1"} {
		f.Add("prod/web", to)
		f.Add(strings.TrimSuffix(to, ":5432"), "192.0.2.1:80/sctp")
	}
	f.Fuzz(func(t *testing.T, from, to string) {
		q, err := ParseQuestion(from, to, "default")
		if err != nil {
			return
		}
		again, err := ParseQuestion(q.From.String(), q.destination(), "other")
		if err != nil || again != q {
			t.Errorf("%q %q is %s, and that is %s, %v", from, to, q, again, err)
		}
	})
}

func FuzzParseExpectations(f *testing.F) {
	f.Add("allow prod/web -> prod/db:5432 # why\n\n deny\tx -> 192.0.2.1:icmp\r\n")
	f.Add("allow -> x\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseExpectations("file", text, "default")
		if err != nil {
			return
		}
		var again []string
		for _, e := range list {
			again = append(again, e.String())
		}
		same, err := ParseExpectations("file", strings.Join(again, "\n"), "other")
		if err != nil || len(same) != len(list) {
			t.Fatalf("%q: %v", again, err)
		}
		for i := range same {
			if same[i].Question != list[i].Question || same[i].Allow != list[i].Allow {
				t.Errorf("%s is read as %s", list[i], same[i])
			}
		}
	})
}
