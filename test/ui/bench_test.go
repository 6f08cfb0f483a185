package ui

import (
	"fmt"
	"testing"
)

// BenchmarkPods is the time from an answer with so many pods to the picture, with namespaces closed.
func BenchmarkPods(b *testing.B) {
	for _, pods := range []int{200, 2000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			page := open(b, large(pods))
			page.elements()
			var total float64
			for b.Loop() {
				total += value[float64](page, `(async () => {
					const [layout, network] = await Promise.all([import("/layout.mjs"), import("/network.mjs")]);
					const { ask } = await import("/session.mjs");
					const [topology, services, endpoints] = await Promise.all(["topology", "services", "endpoints"].map(ask));
					const begin = performance.now();
					const made = network.networkOf({ topology: topology.items[0], services: services.items, endpoints: endpoints.items });
					const { picture } = document.querySelector(".canvas");
					picture.draw(layout.layout(made, new Map(), 1.5));
					await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
					return performance.now() - begin;
				})()`)
			}
			b.ReportMetric(total/float64(b.N), "ms/picture")
		})
	}
}

// BenchmarkConnections is the time from an answer with 20,000 connections of 2,000 pods, the most that an answer has,
// to the picture.
func BenchmarkConnections(b *testing.B) {
	c := large(2000)
	c.crowd(20_000)
	page := open(b, c)
	page.elements()
	var total float64
	for b.Loop() {
		total += value[float64](page, `(async () => {
			const [layout, network, connections] = await Promise.all(["layout", "network", "connections"].map((m) => import("/" + m + ".mjs")));
			const { ask } = await import("/session.mjs");
			const [topology, flows] = await Promise.all(["topology", "flows"].map(ask));
			const made = connections.withEnds(network.networkOf({ topology: topology.items[0] }));
			const places = layout.layout(made, new Map(), 1.5);
			const { picture } = document.querySelector(".canvas");
			picture.draw(places);
			const begin = performance.now();
			const talk = connections.conversationsOf(flows.items[0].flows, made);
			const { edges } = connections.edgesOf(talk, [], layout.shownAs(made, new Map()));
			picture.draw([...places, ...edges]);
			await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
			return performance.now() - begin;
		})()`)
	}
	b.ReportMetric(total/float64(b.N), "ms/picture")
}
