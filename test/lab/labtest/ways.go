package labtest

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

// Way is one of several to a server of test/e2e/flood.
type Way struct {
	Name   string
	Server netip.AddrPort
}

const (
	// A round floods each way for so long. Short rounds have what else the machine does meet all ways.
	floodTime   = 500 * time.Millisecond
	floodRounds = 15
)

// CompareWays counts connections and bytes on their ways to servers, in turns, and reports medians: of connections/s
// and Mbit/s, and of the ratios to the first way in the same round. flood are weftlab's arguments that run
// test/e2e/flood where its client is.
func (l Lab) CompareWays(b *testing.B, flood []string, ways []Way) {
	b.Helper()
	rate := func(way Way, what string, d time.Duration) (float64, error) {
		r, err := l.Flood(flood, way, what, d)
		return r.Count / r.Seconds, err
	}
	for _, way := range ways {
		Eventually(b, 20*time.Second, way.Name+" answers", func() error {
			_, err := rate(way, "connections", 10*time.Millisecond)
			return err
		})
	}
	for _, what := range []struct {
		name, unit string
		of         float64
	}{{"connections", "connections/s", 1}, {"bytes", "Mbit/s", 8e-6}} {
		rates := make([][]float64, len(ways))
		for range b.N * floodRounds {
			for i, way := range ways {
				rate, err := rate(way, what.name, floodTime)
				if err != nil {
					b.Fatal(err)
				}
				rates[i] = append(rates[i], rate*what.of)
			}
		}
		tellRates(b, ways, rates, what.unit)
	}
	b.ReportMetric(0, "ns/op") // of all together says nothing
}

// Flooded is what test/e2e/flood has counted.
type Flooded struct{ Count, Seconds float64 }

// Flood counts what gets through on a way: "connections", or the bytes of one connection ("bytes").
func (l Lab) Flood(flood []string, way Way, what string, d time.Duration) (Flooded, error) {
	out, err := l.Try(slices.Concat(flood, []string{what, way.Server.String(), d.String()})...)
	if err != nil {
		return Flooded{}, err
	}
	var r Flooded
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return Flooded{}, fmt.Errorf("flood says %q: %w", out, err)
	}
	return r, nil
}

func tellRates(b *testing.B, ways []Way, rates [][]float64, unit string) {
	b.Helper()
	for i, way := range ways {
		name := metricName(way.Name)
		b.ReportMetric(middle(rates[i]), name+"-"+unit)
		if i == 0 {
			continue
		}
		ratios := make([]float64, len(rates[i]))
		for round := range ratios {
			ratios[round] = rates[i][round] / rates[0][round]
		}
		slices.Sort(ratios)
		b.ReportMetric(middle(ratios), fmt.Sprintf("%s-to-%s-%s", name, metricName(ways[0].Name), unit))
		b.Logf("%s, %s to %s: %.2f (%.2f–%.2f)", unit, way.Name, ways[0].Name, middle(ratios), ratios[0],
			ratios[len(ratios)-1])
	}
}

func metricName(name string) string { return strings.ReplaceAll(name, " ", "-") }

func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// BuildProgram makes a program of test/e2e for the machines, in the folder bin, and returns its path.
func BuildProgram(b *testing.B, name string) string {
	b.Helper()
	path := filepath.Join(Repository(), "bin", name)
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./test/e2e/"+name)
	build.Dir = Repository()
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v: %s", name, err, out)
	}
	return path
}
