package flows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/conntrack"
)

// BenchmarkParseAndJoin is 100,000 entries of 50,000 connections to a Service, as a node's ovs-vswitchd lists them.

func BenchmarkParseAndJoin(b *testing.B) {
	const connections, server = 50_000, "10.244.1.4:80"
	var text strings.Builder
	for i := range connections {
		client := fmt.Sprintf("10.244.%d.%d:%d", i%4, 3+i/4%250, 1024+i/1000)
		for _, asked := range []string{"10.96.0.10:80", server} {
			fmt.Fprintln(&text, line("tcp", client, asked, server, client, ",zone=7,protoinfo=(state=ESTABLISHED)"))
		}
	}
	dump := text.String()
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read := 0
			for entry := range strings.Lines(dump) {
				if _, _, err := conntrack.Parse(strings.TrimSpace(entry)); err != nil {
					b.Fatal(err)
				}
				read++
			}
			if read != 2*connections {
				b.Fatalf("%d entries are read", read)
			}
		}
	})
	list, names := entries(b, "n1", dump), cluster()
	b.Run("join", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if joined := Join(list, names); len(joined) != connections {
				b.Fatalf("%d flows, want %d", len(joined), connections)
			}
		}
	})
}
