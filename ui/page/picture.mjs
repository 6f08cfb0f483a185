// The map as a picture, drawn by Cytoscape.

import cytoscape from "./vendor/cytoscape.mjs";

/** Gives the colours of the style sheet by the names of their custom properties, as they are in the present scheme. */
function palette() {
  const probe = document.body.appendChild(document.createElement("span"));
  const colours = new Map();
  return {
    colour(name) {
      probe.style.color = `var(--${name})`;
      if (!colours.has(name)) colours.set(name, getComputedStyle(probe).color);
      return colours.get(name);
    },
    done: () => probe.remove(),
  };
}

/** Colours and shapes. Shapes and signs tell the same as colours. */
function style() {
  const { colour, done } = palette();
  const severities = ["failed", "warning", "unknown"].map((severity) => ({
    selector: `node[severity = "${severity}"][kind != "node"]`,
    style: { "border-color": colour(severity), "border-width": 2, "background-color": colour(`${severity}-soft`),
      color: colour(severity) },
  }));
  const sheet = [
    { selector: "node", style: { shape: "round-rectangle", width: "data(width)", height: "data(height)", label: "data(label)",
      "font-family": "system-ui, sans-serif", "font-size": 13, color: colour("ink"), "text-valign": "center",
      "text-halign": "center", "text-wrap": "wrap", "text-max-width": 180, "line-height": 1.3, "border-width": 1,
      "border-color": colour("line"), "background-color": colour("surface"), "min-zoomed-font-size": 5,
      "overlay-opacity": 0, "z-index-compare": "manual" } },
    { selector: 'node[kind = "node"], node[open = "yes"]', style: { "text-valign": "top", "text-margin-y": 26 } },
    { selector: 'node[kind = "node"]', style: { "background-color": colour("node"), "font-size": "data(font)", "font-weight": 600,
      "text-margin-y": 32, "text-max-width": 600, "z-index": 0 } },
    { selector: 'node[kind = "node"][severity != "ok"]', style: { "border-width": 3 } },
    ...["failed", "warning", "unknown"].map((severity) => ({ selector: `node[kind = "node"][severity = "${severity}"]`,
      style: { "border-color": colour(severity), color: colour(severity) } })),
    { selector: 'node[kind = "group"]', style: { "z-index": 1 } },
    { selector: 'node[kind = "pod"]', style: { "z-index": 3, "font-size": 12, "border-color": colour("ok"),
      "background-color": colour("ok-soft") } },
    { selector: 'node[form = "dot"]', style: { shape: "ellipse", "font-size": 10 } },
    { selector: 'node[kind = "service"]', style: { shape: "cut-rectangle", "background-color": colour("service"), "z-index": 3 } },
    { selector: 'node[kind = "host"]', style: { "font-size": 11, "z-index": 3 } },
    ...severities,
    { selector: 'node[kind = "outer"]', style: { "border-style": "dashed", "border-color": colour("line"), "border-width": 1,
      "background-color": colour("surface"), color: colour("ink"), "z-index": 3 } },
    { selector: 'node[form = "dot"][severity = "failed"]', style: { shape: "diamond" } },
    { selector: 'node[form = "dot"][severity = "warning"]', style: { shape: "triangle" } },
    { selector: 'node[severity = "unknown"][kind != "outer"]', style: { "border-style": "dashed" } },
    { selector: "edge", style: { width: 1.5, "line-color": colour("edge"), opacity: 0.5, "z-index": 2,
      "z-index-compare": "manual", events: "no", "target-endpoint": "-50% 0" } },
    { selector: 'edge[from = "side"]', style: { "curve-style": "straight", "source-endpoint": "50% 0" } },
    { selector: 'edge[from = "above"]', style: { "curve-style": "unbundled-bezier", "source-endpoint": "-50% 0",
      "control-point-distances": 60, "control-point-weights": 0.5 } },
    { selector: 'edge[crowded = "yes"]', style: { display: "none" } },
    { selector: 'edge[crowded = "yes"].near', style: { display: "element" } },
    { selector: ".near", style: { opacity: 1 } },
    { selector: "edge.near", style: { width: 3, "line-color": colour("accent"), "target-arrow-shape": "triangle",
      "target-arrow-color": colour("accent") } },
    { selector: "edge[talk]", style: { "curve-style": "bezier", "source-endpoint": "outside-to-node", "z-index": 4,
      "target-endpoint": "outside-to-node", width: "data(width)", opacity: 0.9, label: "data(label)", "font-size": 12,
      "font-family": "system-ui, sans-serif", color: colour("ink"), "text-background-color": colour("surface"),
      "text-background-opacity": 0.9, "text-background-padding": 2, "min-zoomed-font-size": 8, "target-arrow-shape": "triangle" } },
    ...[["answered", "accent", "solid"], ["unanswered", "warning", "dashed"], ["refused", "failed", "dotted"]].map(
      ([talk, name, line]) => ({ selector: `edge[talk = "${talk}"]`, style: { "line-color": colour(name), "line-style": line,
        "target-arrow-color": colour(name) } })),
    { selector: ".far", style: { opacity: 0.2 } },
    { selector: ".chosen", style: { "border-width": 4, "border-color": colour("accent") } },
  ];
  done();
  return sheet;
}

const { abs } = Math;

/** The picture in a container. It tells of what the user chooses, by its id, and of what he opens. */
export class Picture {
  #cy;
  #chosen = "";
  #shown = new Map(); // the elements, as text, by their ids: what has not changed is left alone
  #moved = false; // by the user, whose view stays then

  constructor(container, { choose, open }) {
    this.#cy = cytoscape({ container, style: style(), layout: { name: "preset" }, autoungrabify: true, boxSelectionEnabled: false,
      minZoom: 0.05, maxZoom: 3, pixelRatio: "auto", textureOnViewport: false });
    this.#cy.on("tap", "node", (event) => choose(event.target.id()));
    this.#cy.on("tap", (event) => event.target === this.#cy && choose(""));
    this.#cy.on("dbltap", 'node[kind = "group"]', (event) => open(event.target.id()));
    this.#cy.on("dragpan scrollzoom pinchzoom", () => (this.#moved = true));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#cy.style(style()));
  }

  /** Draws elements in place of those before. What is still there keeps its identity, and the view its place. */
  draw(elements) {
    const cy = this.#cy;
    const wanted = new Map(elements.map((e) => [e.data.id, e]));
    cy.batch(() => {
      cy.elements().filter((e) => !wanted.has(e.id())).remove();
      cy.add(elements.filter((e) => !this.#shown.has(e.data.id)));
      for (const e of elements) {
        const known = this.#shown.get(e.data.id);
        if (known === undefined || known === JSON.stringify(e)) continue;
        const there = cy.getElementById(e.data.id).data(e.data);
        if (e.position) there.position(e.position);
      }
    });
    this.#shown = new Map(elements.map((e) => [e.data.id, JSON.stringify(e)]));
    if (!this.#moved) this.fit();
    this.choose(this.#chosen);
  }

  /** Follows the size of the container. */
  resize() {
    this.#cy.resize();
    if (!this.#moved) this.fit();
  }

  /** Shows all of it. */
  fit() {
    this.#moved = false;
    this.#cy.fit(this.#cy.nodes(), 24); // connections come and go, and the view stays
    if (this.#cy.zoom() > 1.1) {
      this.#cy.zoom(1.1);
      this.#cy.center();
    }
  }

  zoom(factor) {
    this.#moved = true;
    this.#cy.zoom({ level: this.#cy.zoom() * factor,
      renderedPosition: { x: this.#cy.width() / 2, y: this.#cy.height() / 2 } });
  }

  /** Marks an element, and what it leads to; "" marks none. */
  choose(id) {
    const cy = this.#cy;
    this.#chosen = id;
    const chosen = id ? cy.getElementById(id) : cy.collection();
    const near = chosen.connectedEdges().union(chosen.neighborhood());
    cy.batch(() => {
      cy.elements().removeClass("near far chosen");
      if (near.empty() || chosen.empty()) {
        chosen.addClass("chosen");
        return;
      }
      cy.edges().difference(near).addClass("far");
      cy.nodes('[kind = "service"]').difference(near).difference(chosen).addClass("far");
      near.addClass("near");
      chosen.addClass("chosen");
    });
  }

  /** Brings an element into view. */
  reveal(id) {
    const box = this.#cy.getElementById(id).renderedBoundingBox?.();
    if (!box || box.w === undefined) return;
    const outside = box.x1 < 0 || box.y1 < 0 || box.x2 > this.#cy.width() || box.y2 > this.#cy.height();
    if (outside) this.#cy.center(this.#cy.getElementById(id));
  }

  /** The id of the nearest element in a direction, each -1, 0 or 1; of the first one if none is chosen; "" if none is. */
  next(dx, dy) {
    const nodes = this.#cy.nodes();
    const from = this.#cy.getElementById(this.#chosen);
    if (from.empty()) return nodes.empty() ? "" : nodes[0].id();
    const { x, y } = corner(from);
    let [best, distance] = ["", Infinity];
    nodes.forEach((n) => {
      const to = corner(n);
      const along = (to.x - x) * dx + (to.y - y) * dy;
      const aside = abs((to.x - x) * dy) + abs((to.y - y) * dx);
      if (along > 0.5 && along + 3 * aside < distance) [best, distance] = [n.id(), along + 3 * aside];
    });
    return best;
  }

  /** What is drawn, for tests: the data and the classes of all elements. */
  drawn() {
    return this.#cy.elements().map((e) => ({ ...e.data(), classes: e.classes() }));
  }

  end() {
    this.#cy.destroy();
  }
}

/** The upper left corner of an element, by which people read. */
function corner(n) {
  const { x, y } = n.position();
  return { x: x - n.data("width") / 2, y: y - n.data("height") / 2 };
}
