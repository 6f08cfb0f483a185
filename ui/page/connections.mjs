// Who talks to whom now, made of what the API says of flows and of policies' rules. Everything here is pure.

/** How many edges are drawn: those of what was refused or is unanswered first, then those with the most connections. */
const edgeLimit = 200;

/** States of connections whose destination has not answered, if it has sent no packets. */
const unansweredStates = new Set(["SYN_SENT", "COOKIE_WAIT"]);
const isUnanswered = ({ state, replyPackets }) => unansweredStates.has(state) && !replyPackets;

/** What connections are on the map, the worst first, with what an edge says beside its number. */
const labels = { refused: (n) => `✕ ${n} packets refused`, unanswered: (n) => `▲ ${n} unanswered`, answered: String };
const kinds = Object.keys(labels);

const hostId = (node) => `host/${node}`;

/** Ends of connections that are no objects of Kubernetes. */
const outer = [["outside", "Outside the cluster"], ["addresses", "Addresses without a name"],
  ["refused", "Refused by policies"]].map(([id, name]) => ({ kind: "outer", id, name,
  health: { severity: "unknown", texts: ["its health is not watched"] } }));

/** A network with the ends that connections have beside pods: the host of each node, and those that are no objects. */
export function withEnds(network) {
  const host = (node) => ({ kind: "host", id: hostId(node.name), name: node.name, health: node.health });
  return { ...network, nodes: network.nodes.map((node) => ({ ...node, host: host(node) })), outer };
}

/**
 * An end of a flow: its id, the id of what it is a part of on the map, its name, and what a trace calls it.
 * @param {Map} hosts the hosts of gateway routers, by the routers' names
 */
function endOf({ kind, namespace, name, address }, hosts) {
  switch (kind) {
    case "Pod":
      return { id: `pod/${namespace}/${name}`, at: `pod/${namespace}/${name}`, name: `${namespace}/${name}`, way: `${namespace}/${name}` };
    case "Node":
      return { id: hostId(name), at: hostId(name), name: `node/${name}`, way: `node/${name}` };
    case "Gateway":
      return { id: `gateway/${name}`, at: hosts.get(name) ?? "addresses", name: `gateway/${name}`, way: address };
    case "Outside":
      return { id: `address/${address}`, at: "outside", name: `${address} (outside)`, way: address };
  }
  return { id: `address/${address}`, at: "addresses", name: address, way: address };
}

/** The Service that was asked, if one was. A Service that is gone has an address alone. */
function serviceOf(service) {
  if (!service) return undefined;
  const { namespace, name, address, port } = service;
  return name ? { id: `service/${namespace}/${name}`, name: `${namespace}/${name}:${port}`, way: `svc/${namespace}/${name}`, port }
    : { id: "", name: `${address}:${port}`, way: address, port };
}

/**
 * Connections between the same ends by the same Service, protocol and port, as one: those without an answer first, then
 * those that are the most.
 * @param flows the flows of a NetworkFlows
 * @param network the whole network
 */
export function conversationsOf(flows, network) {
  const hosts = new Map(network.nodes.map(({ name, topology }) => [topology.gateway?.name, hostId(name)]));
  const found = new Map();
  for (const flow of flows) {
    const [source, destination] = [flow.source, flow.destination].map((end) => endOf(end, hosts));
    const service = serviceOf(flow.service);
    const { protocol, destination: { port } } = flow;
    const id = [source.id, destination.id, service?.name, protocol, port].join(" ");
    if (!found.has(id)) found.set(id, { id, source, destination, service, protocol, port, connections: 0, unanswered: 0 });
    const conversation = found.get(id);
    conversation.connections++;
    if (isUnanswered(flow)) conversation.unanswered++;
  }
  return [...found.values()].sort((a, b) => b.unanswered - a.unanswered || b.connections - a.connections
    || (a.id < b.id ? -1 : 1));
}

/**
 * What rules have refused on nodes since they were first looked at: nobody knows since when they count. A count that is
 * smaller than before has begun anew. What a node has said stays while it does not answer.
 * @param {Map} before what the last look has given; undefined at the first one
 * @param rules the items of a PolicyHitsList
 */
export function refusedBy(before, rules) {
  const found = new Map(before);
  for (const { metadata, policy, rule, nodes } of rules.filter(({ action }) => action === "Deny")) {
    const at = (node) => (metadata.namespace ? `group/${node}/${metadata.namespace}` : `node/${node}`);
    for (const { node, packets } of nodes) {
      const id = `${policy} ${rule} ${node}`;
      const { counted, refused } = found.get(id) ?? { counted: packets, refused: 0 };
      found.set(id, { id, policy, rule, node, at: at(node), egress: rule.includes("egress"), counted: packets,
        refused: refused + packets - (packets < counted ? 0 : counted) });
    }
  }
  return found;
}

/** The conversations that an object has a part in. */
export function about(object, conversations) {
  if (object.kind === "service") return conversations.filter((c) => c.service?.id === object.id);
  return touching(conversations, new Set([object.id, object.host?.id, ...(object.pods ?? []).map((pod) => pod.id)]));
}

/** The conversations of which one end is among some places on the map. */
export const touching = (conversations, places) => conversations.filter(({ source, destination }) =>
  places.has(source.at) || places.has(destination.at));

/** What the view of a packet's way is to follow a conversation by; undefined if a trace cannot begin at its source. */
export function wayOf({ source, destination, service, protocol, port }) {
  if (source.id.startsWith("address/") || source.id.startsWith("gateway/")) return undefined;
  const known = ["tcp", "udp", "sctp"].includes(protocol.toLowerCase());
  return { from: source.way, to: (service ?? destination).way, protocol: known ? protocol.toLowerCase() : "",
    port: known ? String((service ?? { port }).port) : "" };
}

/**
 * The edges of conversations and of what was refused, as Cytoscape takes them.
 * @param refused what [refusedBy] has given
 * @param {Map} shown the ids of the elements on the map, by those of the places that they stand for
 * @returns edges; omitted, the number of edges beyond the limit; and elsewhere, that of conversations of which an end is
 *   not on the map
 */
export function edgesOf(conversations, refused, shown) {
  const found = new Map();
  const add = (kind, source, target, count) => {
    if (count === 0) return;
    const id = `${kind} ${source}>${target}`;
    found.set(id, { id, kind, source, target, count: count + (found.get(id)?.count ?? 0) });
  };
  let elsewhere = 0;
  for (const { source: { at: from }, destination: { at: to }, connections, unanswered } of conversations) {
    const [source, target] = [shown.get(from), shown.get(to)];
    if (!source || !target) {
      elsewhere++;
      continue;
    }
    add("answered", source, target, connections - unanswered);
    add("unanswered", source, target, unanswered);
  }
  for (const { at, egress, refused: packets } of refused) {
    if (shown.has(at)) add("refused", ...(egress ? [at, "refused"] : ["refused", at]), packets);
  }
  const edges = [...found.values()].sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || b.count - a.count
    || (a.id < b.id ? -1 : 1));
  return { edges: edges.slice(0, edgeLimit).map(elementOf), omitted: Math.max(0, edges.length - edgeLimit), elsewhere };
}

const elementOf = ({ id, kind, source, target, count }) => ({ group: "edges", data: { id, source, target, talk: kind, count,
  label: labels[kind](count), width: 1.5 + Math.min(4, Math.log2(count) / 2) } });
