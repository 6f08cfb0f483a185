// The map of nodes, pods and Services: as a picture, and as tables that say the same.

import { html, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.mjs";
import { about, conversationsOf, edgesOf, touching, withEnds } from "./connections.mjs";
import { isOpen, layout, shownAs } from "./layout.mjs";
import { Conversations, LiveTables, Summary, useLive } from "./live.mjs";
import { filtered, healthText, page, signs, titleOf } from "./network.mjs";
import { Picture } from "./picture.mjs";

const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The objects of a network by their ids. */
const objectsOf = (network) => new Map([...network.nodes, ...network.nodes.flatMap((n) => [...n.groups, n.host]),
  ...network.pods, ...network.services, ...(network.outer ?? [])].filter(Boolean).map((object) => [object.id, object]));

/**
 * Who talks to whom on what a filter has kept of a network: the conversations, what was refused, and the edges of both.
 * @param {Map} shown what is on the map, as shownAs gives it
 */
function useTalk(on, network, kept, shown) {
  const live = useLive(on);
  const whole = kept === network;
  const all = useMemo(() => conversationsOf(live.flows?.flows ?? [], network), [live.flows, network]);
  const conversations = useMemo(() => (whole ? all : touching(all, new Set(kept.pods.map((pod) => pod.id)))), [all, kept, whole]);
  const refused = useMemo(() => [...live.refused?.values() ?? []].filter((r) => r.refused > 0 && (whole || shown.has(r.at))),
    [live.refused, shown, whole]);
  const drawing = useMemo(() => edgesOf(conversations, refused, shown), [conversations, refused, shown]);
  return { live, conversations, refused, drawing };
}

export function MapView({ network, selected, select, follow }) {
  const [filter, setFilter] = useState({ namespace: "", text: "" });
  const [form, setForm] = useState("picture");
  const [chosen, setChosen] = useState(new Map());
  const [talking, setTalking] = useState(false);
  const kept = useMemo(() => filtered(network, filter), [network, filter]);
  const left = useMemo(() => (talking ? withEnds(kept) : kept), [kept, talking]);
  const shown = useMemo(() => shownAs(left, chosen), [left, chosen]);
  const { live, conversations, refused, drawing } = useTalk(talking, network, kept, shown);
  const objects = useMemo(() => objectsOf(left), [left]);
  const object = objects.get(selected);
  const toggle = (id) => setChosen(new Map([...chosen, [id, !isOpen(objects.get(id), left, chosen)]]));
  return html`<div class="tools">
      <label>Namespace <select value=${filter.namespace} onChange=${(e) => setFilter({ ...filter, namespace: e.target.value })}>
        <option value="">all</option>${network.namespaces.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <label>Search <input type="search" value=${filter.text} placeholder="name or address"
        onInput=${(e) => setFilter({ ...filter, text: e.target.value })} /></label>
      <div class="switch" role="group" aria-label="Form of the map">${["picture", "table"].map((name) => html`<button
        type="button" aria-pressed=${form === name} onClick=${() => setForm(name)}>${name === "picture" ? "Picture" : "Table"}</button>`)}</div>
      <button type="button" class="toggle" aria-pressed=${talking} onClick=${() => setTalking(!talking)}>Live connections</button>
      <p class="count" role="status">${count(left.nodes, "node")}, ${count(left.pods, "pod")},
        ${" "}${count(left.services, "Service")}</p>
    </div>
    ${talking && html`<${Summary} ...${{ live, conversations, refused, drawing: form === "picture" && drawing }} />`}
    <div class="map">
      ${form === "picture" ? html`<${Canvas} ...${{ network: left, chosen, edges: drawing.edges, selected, select, toggle, object }} />`
        : html`<${Tables} ...${{ network: left, selected, select }}>${talking
          && html`<${LiveTables} ...${{ conversations, refused, follow }} />`}<//>`}
      ${object && html`<${Details} ...${{ object, network: left, conversations, refused, objects, select, follow, toggle,
        open: object.kind === "group" && isOpen(object, left, chosen) }} />`}
    </div>`;
}

const count = (list, word) => `${list.length} ${word}${list.length === 1 ? "" : "s"}`;

/** The picture, for eyes and a mouse or for arrow keys; what is chosen is said aloud. */
function Canvas({ network, chosen, edges, selected, select, toggle, object }) {
  const container = useRef(null);
  const picture = useRef(null);
  const handlers = useRef({});
  const [aspect, setAspect] = useState(1.5);
  handlers.current = { select, toggle };
  // Before the browser paints: a key that comes before it does goes on from what the key before it chose.
  useLayoutEffect(() => {
    picture.current = new Picture(container.current, { choose: (id) => handlers.current.select(id),
      open: (id) => handlers.current.toggle(id) });
    container.current.picture = picture.current;
    const observer = new ResizeObserver(([{ contentRect: { width, height } }]) => {
      setAspect(width / height);
      picture.current.resize();
    });
    observer.observe(container.current);
    return () => {
      observer.disconnect();
      picture.current.end();
    };
  }, []);
  const places = useMemo(() => layout(network, chosen, aspect), [network, chosen, aspect]);
  useLayoutEffect(() => picture.current.draw([...places, ...edges]), [places, edges]);
  useLayoutEffect(() => picture.current.choose(selected), [selected]);
  const pressed = (event) => {
    const keys = { Enter: () => object?.kind === "group" && toggle(object.id), Escape: () => select(""),
      "+": () => picture.current.zoom(1.25), "-": () => picture.current.zoom(0.8), 0: () => picture.current.fit() };
    const direction = directions[event.key];
    if (!direction && !keys[event.key]) return;
    event.preventDefault();
    if (!direction) return keys[event.key]();
    const id = picture.current.next(...direction);
    if (!id) return;
    select(id);
    picture.current.reveal(id);
  };
  return html`<div class="picture">
    <div class="canvas" ref=${container} tabindex="0" role="application" aria-label="Picture of the map"
      aria-describedby="keys" onKeyDown=${pressed}></div>
    <p id="keys" class="hint">Arrow keys choose, Enter shows a namespace's pods or hides them, + and − zoom, 0 shows all.
      The table says the same in words.</p>
    <p class="heard" role="status">${object && `${titleOf(object)}: ${healthText(object)}`}</p>
    <div class="zoom" role="group" aria-label="Zoom">
      <button type="button" aria-label="Zoom in" onClick=${() => picture.current.zoom(1.25)}>+</button>
      <button type="button" aria-label="Zoom out" onClick=${() => picture.current.zoom(0.8)}>−</button>
      <button type="button" onClick=${() => picture.current.fit()}>All</button>
    </div>
  </div>`;
}

function Tables({ network, selected, select, children }) {
  return html`<div class="tables">
    ${children}
    <${Table} caption="Nodes" rows=${network.nodes} ...${{ selected, select }} columns=${{
      System: (n) => n.system || "unknown", Namespaces: (n) => n.groups.length, Pods: (n) => n.pods.length }} />
    <${Table} caption="Services" rows=${network.services} ...${{ selected, select }} columns=${{
      Namespace: (s) => s.namespace, Type: (s) => s.type, Addresses: (s) => s.addresses.join(", "), Ports: portsOf,
      Endpoints: (s) => `${s.ready} ready` }} />
    <${Table} caption="Pods" rows=${network.pods} ...${{ selected, select }} columns=${{
      Namespace: (p) => p.namespace, Node: (p) => p.node, Addresses: (p) => p.addresses.join(", ") }} />
  </div>`;
}

const portsOf = ({ ports }) => ports.map(({ port, protocol }) => `${port}/${protocol.toLowerCase()}`).join(", ");

/** A table of objects of one kind. Its first columns are the name, which chooses the object, and the health. */
function Table({ caption, rows, columns, selected, select }) {
  const [whole, showWhole] = useState(false);
  const shown = whole ? rows : rows.slice(0, page);
  return html`<table>
    <caption>${caption} (${rows.length})</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">Health</th>
      ${Object.keys(columns).map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
    <tbody>${shown.map((object) => html`<tr key=${object.id} data-id=${object.id} class=${object.id === selected ? "chosen" : ""}>
      <th scope="row"><button type="button" class="link" aria-pressed=${object.id === selected}
        onClick=${() => select(object.id)}>${object.name}</button></th>
      <td><${Health} object=${object} /></td>
      ${Object.entries(columns).map(([name, cell]) => html`<td key=${name}>${cell(object)}</td>`)}</tr>`)}</tbody>
    ${shown.length < rows.length && html`<tfoot><tr><td colspan=${2 + Object.keys(columns).length}><button type="button"
      onClick=${() => showWhole(true)}>Show all ${rows.length}</button></td></tr></tfoot>`}
  </table>`;
}

function Health({ object }) {
  const { severity } = object.health;
  return html`<span class=${`health ${severity}`}><span aria-hidden="true">${signs[severity]}</span> ${healthText(object)}</span>`;
}

/** Kinds of objects in words, where they are not the words of Kubernetes. */
const kinds = { group: "namespace on a node", host: "host of a node", outer: "beyond the pods" };

/** All about the object that is chosen. */
function Details({ object, network, conversations, refused, objects, select, follow, toggle, open }) {
  const end = { pod: () => `${object.namespace}/${object.name}`, node: () => object.id, host: () => `node/${object.name}`,
    service: () => `svc/${object.namespace}/${object.name}` }[object.kind]?.();
  return html`<aside aria-label="Details">
    <button type="button" class="close" aria-label="Close the details" onClick=${() => select("")}>×</button>
    <h2><span class="kind">${kinds[object.kind] ?? object.kind}</span> ${object.name}</h2>
    <p><${Health} object=${object} /></p>
    <dl>${factsOf(object).filter(([, value]) => value !== "" && value !== undefined).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <${Related} ...${{ object, network, objects, select }} />
    <${Conversations} conversations=${about(object, conversations)} refused=${refused.filter(({ at }) => at === object.id)}
      follow=${follow} />
    <div class="actions">
      ${object.kind === "group" && html`<button type="button" onClick=${() => toggle(object.id)}>${open ? "Hide" : "Show"} the pods</button>`}
      ${end && object.kind !== "service" && html`<button type="button" onClick=${() => follow({ from: end })}>Way from here</button>`}
      ${end && html`<button type="button" onClick=${() => follow({ to: end, port: "" })}>Way to here</button>`}
    </div>
  </aside>`;
}

function factsOf(object) {
  switch (object.kind) {
    case "pod":
      return [["Namespace", object.namespace], ["Node", object.node], ["Addresses", object.addresses.join(", ")], ["MAC", object.mac]];
    case "service":
      return [["Namespace", object.namespace], ["Type", object.type], ["Addresses", object.addresses.join(", ")],
        ["Ports", portsOf(object)], ["Endpoints", `${object.ready} ready`]];
    case "group":
      return [["Node", object.node], ["Pods", object.pods.length]];
    case "host":
    case "outer":
      return [];
  }
  const { topology, status } = object;
  return [["System", object.system], ["Chassis", topology.chassis], ["Switch", topology.switch],
    ["Pod subnets", topology.router?.networks?.join(", ")], ["Gateway", topology.gateway?.name],
    ["Pods", object.pods.length], ["Agent", status?.version], ["Free addresses", status?.subnets?.map((s) => s.free).join(", ")]];
}

/** The objects that an object leads to: a Service its pods, a pod its Services. */
function Related({ object, network, objects, select }) {
  const related = object.kind === "service" ? object.endpoints.map((id) => objects.get(id)).filter(Boolean)
    : object.kind === "pod" ? network.services.filter((s) => s.endpoints.includes(object.id)) : [];
  return related.length > 0 && html`<h3>${object.kind === "service" ? "Pods behind it" : "Services before it"}</h3>
    <ul class="related">${related.slice(0, page).map((o) => html`<li key=${o.id}><button type="button" class="link"
      onClick=${() => select(o.id)}>${o.namespace}/${o.name}</button></li>`)}
      ${related.length > page && html`<li>and ${related.length - page} more</li>`}</ul>`;
}
