// Where everything on the map stands. Nothing here depends on forces or on chance: a network that has not changed is
// drawn as before, and 2,000 pods in closed groups take a tenth of a second. Lengths are in pixels at zoom 1.

import { healthText, signs } from "./network.mjs";

const tile = { width: 190, height: 38, gap: 10, header: 32 };
const node = { header: 44, padding: 12, gap: 28 };
const row = { height: 22, limit: 24 }; // more pods than that are dots
const dot = { size: 14, step: 20, perLine: 9 };
const service = { width: 190, height: 34, gap: 10, distance: 130 };
const host = { width: 52, height: 22 };

/** How many pods a network has at most if its groups are open from the start. */
const openLimit = 60;

/** With more edges of Services than that, or with connections, only those of what is chosen are drawn. */
const edgeLimit = 200;

/** Whether a group shows its pods: as the user has chosen, or else if there are few. */
export const isOpen = (group, network, chosen) => chosen.get(group.id) ?? network.pods.length <= openLimit;

/** The ids of the elements on the map, by those of what they stand for: a pod in a group that is closed is the group. */
export const shownAs = (network, chosen) => new Map([
  ...[...network.nodes.flatMap((node) => [node, node.host, ...node.groups]), ...(network.outer ?? [])].filter(Boolean)
    .map(({ id }) => [id, id]),
  ...network.nodes.flatMap(({ groups }) => groups.flatMap((group) => {
    const open = isOpen(group, network, chosen);
    return group.pods.map((pod) => [pod.id, open ? pod.id : group.id]);
  })),
]);

/**
 * The elements of the map, as Cytoscape takes them, each with a position.
 * @param chosen groups' ids, and whether the user has opened or closed them
 * @param {number} aspect width of the map through its height
 */
export function layout(network, chosen, aspect) {
  const boxes = network.nodes.map((n) => nodeBox(n, network, chosen));
  const size = shelve(boxes, aspect);
  const elements = boxes.flatMap((box) => box.elements.map((e) => moved(e, box.x, box.y)));
  const shown = shownAs(network, chosen);
  const above = aspect < 1;
  elements.push(...placeServices(network.services, size, above), ...placeOuter(network.outer ?? [], size, above));
  const lines = network.services.flatMap((s) => edges(s, shown, above ? "above" : "side"));
  lines.forEach((line) => (line.data.crowded = network.outer || lines.length > edgeLimit ? "yes" : "no"));
  return [...elements, ...lines];
}

const moved = (element, x, y) => ({ ...element, position: { x: element.position.x + x, y: element.position.y + y } });

/** An element whose upper left corner is at x, y. */
function element(object, label, { x, y, width, height }, more = {}) {
  return { group: "nodes", position: { x: x + width / 2, y: y + height / 2 }, data: { id: object.id, kind: object.kind,
    severity: object.health.severity, label, width, height, ...more } };
}

/** A node with its groups, in columns. Each group goes to the column that is the shortest. */
function nodeBox(of, network, chosen) {
  const columns = Array(Math.min(3, Math.max(1, Math.ceil(of.groups.length / 4)))).fill(node.header);
  const width = 2 * node.padding + columns.length * (tile.width + tile.gap) - tile.gap;
  const elements = [];
  for (const group of of.groups) {
    const column = columns.indexOf(Math.min(...columns));
    const at = { x: node.padding + column * (tile.width + tile.gap), y: columns[column] };
    const open = isOpen(group, network, chosen);
    const tiles = open ? openGroup(group, at) : [element(group, tileLabel(group), { ...at, width: tile.width,
      height: tile.height }, { open: "no" })];
    elements.push(...tiles);
    columns[column] += tiles[0].data.height + tile.gap;
  }
  const height = Math.max(...columns) - tile.gap + node.padding;
  const sign = of.health.severity === "ok" ? "" : `${signs[of.health.severity]} `;
  elements.unshift(element(of, `${sign}${of.name}  ·  ${of.system || "system unknown"}`, { x: 0, y: 0, width, height },
    { font: network.nodes.length > 12 ? 28 : 15 })); // many are seen from afar
  if (of.host) elements.push(element(of.host, "host", { x: width - host.width - 12, y: -host.height / 2, ...host }));
  return { width, height, elements };
}

function tileLabel(group) {
  const sign = group.health.severity === "ok" ? "" : `\n${signs[group.health.severity]} ${healthText(group)}`;
  return `${short(group.namespace, 22)}  ·  ${group.pods.length}${sign}`;
}

const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** A group that shows its pods: each in a row with its name, or as a dot if there are many. */
function openGroup(group, { x, y }) {
  const dots = group.pods.length > row.limit;
  const height = tile.header + (dots ? Math.ceil(group.pods.length / dot.perLine) * dot.step
    : group.pods.length * row.height) + 6;
  const pods = group.pods.map((pod, i) => {
    const sign = pod.health.severity === "ok" ? "" : `${signs[pod.health.severity]} `;
    if (!dots) {
      return element(pod, sign + short(pod.name, 26), { x: x + 6, y: y + tile.header + i * row.height,
        width: tile.width - 12, height: row.height - 4 }, { form: "row" });
    }
    return element(pod, sign.trim(), { x: x + 8 + (i % dot.perLine) * dot.step,
      y: y + tile.header + Math.floor(i / dot.perLine) * dot.step, width: dot.size, height: dot.size }, { form: "dot" });
  });
  return [element(group, `${short(group.namespace, 22)}  ·  ${group.pods.length}`, { x, y, width: tile.width, height },
    { open: "yes" }), ...pods];
}

/** Puts boxes onto shelves, so that all together have about the aspect. Sets their x and y, and gives the size. */
function shelve(boxes, aspect) {
  const area = boxes.reduce((sum, b) => sum + (b.width + node.gap) * (b.height + node.gap), 0);
  const limit = Math.max(Math.sqrt(area * aspect), ...boxes.map((b) => b.width), 0);
  let [x, y, tallest, width] = [0, 0, 0, 0];
  for (const box of boxes) {
    if (x > 0 && x + box.width > limit) [x, y, tallest] = [0, y + tallest + node.gap, 0];
    [box.x, box.y] = [x, y];
    width = Math.max(width, x + box.width);
    x += box.width + node.gap;
    tallest = Math.max(tallest, box.height);
  }
  return { width, height: y + tallest };
}

/** Services stand on the left of the nodes, in columns; or above them, in lines, where there is little width. */
function placeServices(services, size, above) {
  const [width, height] = [service.width + service.gap, service.height + service.gap];
  const perLine = above ? Math.max(1, Math.floor(size.width / width))
    : Math.ceil(services.length / Math.max(6, Math.floor(size.height / height)));
  const lines = Math.ceil(services.length / perLine);
  const left = above ? 0 : -service.distance - perLine * width;
  const top = above ? -service.distance / 2 - lines * height : Math.max(0, (size.height - lines * height) / 2);
  return services.map((s, i) => {
    const [column, line] = above ? [i % perLine, Math.floor(i / perLine)] : [Math.floor(i / lines), i % lines];
    const sign = s.health.severity === "ok" ? "" : `${signs[s.health.severity]} `;
    return element(s, sign + short(`${s.namespace}/${s.name}`, 27), { x: left + column * width, y: top + line * height,
      width: service.width, height: service.height });
  });
}

/** Ends of connections that are no objects stand beyond the nodes: on the right, or below where there is little width. */
function placeOuter(outer, size, below) {
  return outer.map((end, i) => element(end, end.name, { width: service.width, height: service.height,
    ...(below ? { x: i * (service.width + service.gap), y: size.height + service.distance / 2 }
      : { x: size.width + service.distance, y: size.height / 2 + (i - outer.length / 2) * service.distance }) }));
}

/** A Service's edges to what its endpoints are shown as, with the number of them. */
function edges(of, shown, from) {
  const targets = Map.groupBy(of.endpoints.filter((pod) => shown.has(pod)), (pod) => shown.get(pod));
  return [...targets].map(([target, pods]) => ({ group: "edges", data: { id: `${of.id}>${target}`, source: of.id,
    target, from, endpoints: pods.length } }));
}
