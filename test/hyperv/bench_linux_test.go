package hyperv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"

	"github.com/weftnet/weft/node/nodetest"
)

// BenchmarkTrackedIPv6 measures what it costs that packets of tracked IPv6 connections hit no flow:
// datagrams go to and fro between two pods of a node, tracked for both, beside IPv4, the driver
// without that fault, and fewer lookups. The stale tuple of IPv4 is off in all.
func BenchmarkTrackedIPv6(b *testing.B) {
	v4 := func(p pod) string { return p.address }
	v6 := func(p pod) string { return p.address6 }
	once := []string{
		"table=0,ipv6,actions=ct(table=1,zone=1)",
		"table=1,ct_state=+new+trk,ipv6,actions=ct(commit,zone=1),normal",
		"table=1,ct_state=+est+trk,actions=normal",
	}
	for _, c := range []struct {
		name   string
		faults Faults
		flows  []string
		to     func(pod) string
	}{
		{"IPv4", without(StaleTuple), track, v4},
		{"IPv6", without(StaleTuple), track, v6},
		{"IPv6 without the fault", without(StaleTuple, TrackedIPv6), track, v6},
		{"IPv6 in one zone", without(StaleTuple), once, v6},
		{"IPv6 untracked", without(StaleTuple), []string{"actions=normal"}, v6},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := startNode(b, c.faults)
			client, server := n.pod(1), n.pod(2)
			n.flows(c.flows...)
			talk := newTalk(b, client, server, c.to(server))
			talk.run(b) // connections and flows are made
			vswitchd := n.PID(nodetest.Vswitchd)
			before, packets := n.extension.Status(), 0
			used := [2]time.Duration{processorTime(b, vswitchd), processorTime(b, os.Getpid())}
			for b.Loop() {
				packets += talk.run(b)
			}
			after := n.extension.Status()
			b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
			b.ReportMetric(float64(after.Misses-before.Misses)/float64(packets), "upcalls/packet")
			used[0], used[1] = processorTime(b, vswitchd)-used[0], processorTime(b, os.Getpid())-used[1]
			b.ReportMetric(float64(used[0].Microseconds())/float64(packets), "vswitchd-µs/packet")
			b.ReportMetric(float64((used[0]+used[1]).Microseconds())/float64(packets), "all-µs/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// What a run of a talk is: so many connections, and questions of each, one after the other.
const (
	talkConnections = 8
	talkQuestions   = 2000
)

// talk is datagrams to and fro between two pods.
type talk struct{ connections []net.Conn }

func newTalk(b *testing.B, client, server pod, to string) talk {
	b.Helper()
	var echo net.PacketConn
	server.inside(func() (err error) {
		echo, err = net.ListenPacket("udp", net.JoinHostPort(to, "7"))
		return err
	})
	b.Cleanup(func() { echo.Close() })
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buffer[:n], from) // what is lost is asked for again
		}
	}()
	var t talk
	client.inside(func() error {
		for range talkConnections {
			connection, err := net.Dial("udp", net.JoinHostPort(to, "7"))
			if err != nil {
				return err
			}
			b.Cleanup(func() { connection.Close() })
			t.connections = append(t.connections, connection)
		}
		return nil
	})
	return t
}

// run has all questions answered, and returns how many packets that took.
func (t talk) run(b *testing.B) int {
	b.Helper()
	var packets atomic.Int64
	var group errgroup.Group
	for _, connection := range t.connections {
		group.Go(func() error {
			for range talkQuestions {
				sent, err := exchange(connection)
				packets.Add(int64(sent) + 1)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return int(packets.Load())
}

// exchange sends 64 bytes until they come back, and returns how often.
func exchange(connection net.Conn) (sent int, err error) {
	buffer := make([]byte, 64)
	for sent < 20 {
		if _, err := connection.Write(buffer); err != nil {
			return sent, err
		}
		sent++
		if err := connection.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return sent, err
		}
		if _, err := connection.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
			return sent, err
		}
	}
	return sent, os.ErrDeadlineExceeded
}

// processorTime is what a process has used.
func processorTime(b *testing.B, pid int) (used time.Duration) {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] { // utime and stime in hundredths of a second, proc(5)
		ticks, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		used += time.Duration(ticks) * 10 * time.Millisecond
	}
	return used
}

// inside runs do in the pod's network: sockets that it opens stay there.
func (p pod) inside(do func() error) {
	p.n.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread goes with the goroutine
		space, err := netns.GetFromName(p.name)
		if err == nil {
			defer space.Close()
			err = netns.Set(space)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		p.n.t.Fatal(err)
	}
}
