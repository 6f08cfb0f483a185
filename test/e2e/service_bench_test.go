//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// Each way has a port of its own at the server. A client's port is the same on two ways now and then,
	// what is a Service's could not be told from what is not, behind the load balancer. NodePorts lead to 9002.
	directPort, clusterIPPort = 9000, 9001
	// A round floods each target for so long. Short rounds have what else the machine does meet all targets.
	floodTime   = 500 * time.Millisecond
	floodRounds = 15
)

// BenchmarkServices counts connections and bytes on their way through a Service and without it, in
// turns. Servers and clients are Linux programs in the network namespaces of pods and hosts, also
// where the node is a Windows node.
func BenchmarkServices(b *testing.B) {
	flood := buildProgram(b, "flood")
	cluster.Apply(b, floodServers)
	var pods, virtual [2]netip.Addr // of l1 and l2
	for i, node := range []string{"l1", "l2"} {
		server := "flood-" + node
		cluster.Kubectl(b, "wait", "--for=condition=Ready", "--timeout=60s", "pod/"+server)
		pods[i], virtual[i] = podAddresses(b, server)[0], clusterAddresses(b, server)[0]
		inPod(b, server, node).serve(b, flood, "serve", ":9000", ":9001", ":9002")
	}
	host("l1").serve(b, flood, "serve", ":9000")
	l1, nodePort := nodeAddresses(b, "l1")[0], nodePorts(b, "flood-l1")["node"]
	for _, path := range []struct {
		name   string
		client place
		to     []target
	}{
		{"pod to the same node", inWeb(b, "l1"), []target{{"pod", pods[0], directPort}, {"ClusterIP", virtual[0], clusterIPPort}}},
		{"pod to another node", inWeb(b, "l1"), []target{{"pod", pods[1], directPort}, {"ClusterIP", virtual[1], clusterIPPort}}},
		{"pod of a Windows node", inWeb(b, "w1"), []target{{"pod", pods[0], directPort}, {"ClusterIP", virtual[0], clusterIPPort}}},
		{"host itself", host("l1"), []target{{"pod", pods[0], directPort}, {"ClusterIP", virtual[0], clusterIPPort}, {"localhost NodePort", netip.MustParseAddr("127.0.0.1"), nodePort}}},
		{"host outside", outsideHost, []target{{"host", l1, directPort}, {"NodePort", l1, nodePort}}},
	} {
		b.Run(path.name, func(b *testing.B) {
			for _, t := range path.to {
				eventually(b, inForce, t.name+" answers", func() error {
					_, err := t.flood(path.client, flood, "connections", 10*time.Millisecond)
					return err
				})
			}
			for _, what := range []struct {
				name, unit string
				of         float64
			}{{"connections", "connections/s", 1}, {"bytes", "Mbit/s", 8e-6}} {
				rates := make([][]float64, len(path.to))
				for range b.N * floodRounds {
					for i, t := range path.to {
						rate, err := t.flood(path.client, flood, what.name, floodTime)
						if err != nil {
							b.Fatal(err)
						}
						rates[i] = append(rates[i], rate*what.of)
					}
				}
				tellRates(b, path.to, rates, what.unit)
			}
			b.ReportMetric(0, "ns/op") // of all together says nothing
		})
	}
}

const floodServers = `
apiVersion: v1
kind: Service
metadata: {name: flood-l1}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {flood: l1}, ports: [{name: cluster, port: 9001}, {name: node, port: 9002}]}
---
apiVersion: v1
kind: Service
metadata: {name: flood-l2}
spec: {ipFamilyPolicy: PreferDualStack, selector: {flood: l2}, ports: [{name: cluster, port: 9001}, {name: node, port: 9002}]}
---
apiVersion: v1
kind: Pod
metadata: {name: flood-l1, labels: {flood: l1}}
spec: {nodeName: l1, terminationGracePeriodSeconds: 1, containers: [{name: pause, image: "` + image + `", args: [pause]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: flood-l2, labels: {flood: l2}}
spec: {nodeName: l2, terminationGracePeriodSeconds: 1, containers: [{name: pause, image: "` + image + `", args: [pause]}]}
`

// target is one way to a server.
type target struct {
	name string
	addr netip.Addr
	port int
}

// flood returns a rate a second.
func (t target) flood(from place, program, what string, d time.Duration) (float64, error) {
	out, err := from.try(program, what, netip.AddrPortFrom(t.addr, uint16(t.port)).String(), d.String())
	if err != nil {
		return 0, err
	}
	var r struct{ Count, Seconds float64 }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return 0, fmt.Errorf("flood says %q: %w", out, err)
	}
	return r.Count / r.Seconds, nil
}

// tellRates reports medians; ratios are to the first target in the same round.
func tellRates(b *testing.B, to []target, rates [][]float64, unit string) {
	b.Helper()
	for i, t := range to {
		name := metricName(t.name)
		b.ReportMetric(middle(rates[i]), name+"-"+unit)
		if i == 0 {
			continue
		}
		ratios := make([]float64, len(rates[i]))
		for round := range ratios {
			ratios[round] = rates[i][round] / rates[0][round]
		}
		slices.Sort(ratios)
		b.ReportMetric(middle(ratios), fmt.Sprintf("%s-to-%s-%s", name, metricName(to[0].name), unit))
		b.Logf("%s, %s to %s: %.2f (%.2f–%.2f)", unit, t.name, to[0].name, middle(ratios), ratios[0], ratios[len(ratios)-1])
	}
}

func metricName(name string) string { return strings.ReplaceAll(name, " ", "-") }

func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// buildProgram makes a program of test/e2e for the machines.
func buildProgram(b *testing.B, name string) string {
	b.Helper()
	path := filepath.Join(repository(), "bin", name)
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./test/e2e/"+name)
	build.Dir = repository()
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v: %s", name, err, out)
	}
	return path
}
