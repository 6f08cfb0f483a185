// What is drawn, made of what the API says. Everything here is pure.

/** Severities, the worst first. */
export const severities = ["failed", "warning", "unknown", "ok"];

/** Signs of severities, for those who cannot tell the colours apart. */
export const signs = { failed: "✕", warning: "▲", unknown: "?", ok: "✓" };

/** How many rows of a table are drawn before the user asks for the rest. */
export const page = 200;

/** The worst of some severities; "ok" of none. */
export const worst = (list) => severities.find((severity) => list.includes(severity)) ?? "ok";

const byName = (a, b) => a.id.localeCompare(b.id, "en", { numeric: true });

/**
 * The network that is drawn.
 * @param {object} answers items of the lists that were asked for; undefined is one that was refused:
 *   status is a NetworkStatus, topology a NetworkTopology, services and endpoints are Services and EndpointSlices
 * @returns nodes, each with its groups, which are its pods by namespace; all pods; and services. Each has an id, a
 *   health with a severity and texts, and the pods that it is about.
 */
export function networkOf({ status, topology, services, endpoints }) {
  const findings = findingsByObject(status);
  const nodes = (topology?.nodes ?? []).map((node) => nodeOf(node, findings, status)).sort(byName);
  const pods = nodes.flatMap((node) => node.pods);
  const behind = endpointsByService(endpoints);
  return {
    nodes,
    pods,
    services: (services ?? []).map((service) => serviceOf(service, behind, findings, endpoints)).sort(byName),
    namespaces: [...new Set([...pods, ...(services ?? []).map((s) => s.metadata)].map((o) => o.namespace))].sort(),
  };
}

function findingsByObject(status) {
  const found = new Map();
  for (const finding of status?.findings ?? []) {
    found.set(finding.object, [...(found.get(finding.object) ?? []), finding]);
  }
  return found;
}

/** The health of an object: what was found about it, and what its own state says. */
function healthOf(object, findings, own = []) {
  const all = [...own, ...(findings.get(object) ?? [])];
  return { severity: worst(all.map((f) => f.severity)), texts: all.map((f) => f.text) };
}

function nodeOf(node, findings, status) {
  const known = status?.nodes?.find((n) => n.name === node.name);
  const own = [];
  if (!node.switch) own.push({ severity: "warning", text: "it has no logical switch yet" });
  if (known && !known.ready) own.push({ severity: "failed", text: `it is not Ready: ${known.notReady ?? ""}` });
  const pods = (node.pods ?? []).map((port) => podOf(port, node.name, findings));
  const groups = [...Map.groupBy(pods, (pod) => pod.namespace)].map(([namespace, members]) => ({
    kind: "group",
    id: `group/${node.name}/${namespace}`,
    name: namespace,
    namespace,
    node: node.name,
    pods: members,
    health: { severity: worst(members.map((pod) => pod.health.severity)), texts: [] },
  }));
  return { kind: "node", id: `node/${node.name}`, name: node.name, system: node.system ?? "", pods,
    groups: groups.sort(byName), topology: node, status: known, health: healthOf(`Node ${node.name}`, findings, own) };
}

function podOf(port, node, findings) {
  const { namespace, name, up, addresses = [], mac = "", chassis = "" } = port;
  const own = up ? [] : [{ severity: "failed",
    text: chassis ? `its port is not up on chassis ${chassis}` : "no chassis has claimed its port" }];
  return { kind: "pod", id: `pod/${namespace}/${name}`, namespace, name, node, addresses, mac, up,
    health: healthOf(`Pod ${namespace}/${name}`, findings, own) };
}

function endpointsByService(slices) {
  const found = new Map();
  for (const slice of slices ?? []) {
    const key = `${slice.metadata.namespace}/${slice.metadata.labels?.["kubernetes.io/service-name"]}`;
    const of = found.get(key) ?? { pods: new Set(), ready: new Set() };
    found.set(key, of);
    for (const { targetRef, conditions, addresses } of slice.endpoints ?? []) {
      const pod = targetRef?.kind === "Pod" ? `pod/${targetRef.namespace ?? slice.metadata.namespace}/${targetRef.name}` : "";
      if (pod) of.pods.add(pod);
      if (conditions?.ready !== false) of.ready.add(pod || addresses[0]); // unset is ready
    }
  }
  return found;
}

function serviceOf({ metadata, spec, status }, behind, findings, endpoints) {
  const key = `${metadata.namespace}/${metadata.name}`;
  const { pods, ready } = behind.get(key) ?? { pods: new Set(), ready: new Set() };
  const own = [];
  if (endpoints && spec.type !== "ExternalName" && ready.size === 0) {
    own.push({ severity: "warning", text: "it has no ready endpoint" });
  }
  return {
    kind: "service", id: `service/${key}`, namespace: metadata.namespace, name: metadata.name,
    type: spec.type ?? "ClusterIP",
    addresses: [...(spec.clusterIPs ?? []), ...(spec.externalIPs ?? []),
      ...(status?.loadBalancer?.ingress ?? []).map((i) => i.ip ?? i.hostname)],
    ports: (spec.ports ?? []).map(({ name, port, protocol = "TCP" }) => ({ name, port, protocol })),
    endpoints: [...pods].sort(), ready: ready.size, health: healthOf(`Service ${key}`, findings, own),
  };
}

/**
 * The part of a network that a filter leaves.
 * @param {string} namespace the only one that is left; "" leaves all
 * @param {string} text what names, addresses or namespaces contain; "" leaves all
 */
export function filtered(network, { namespace, text }) {
  const wanted = text.trim().toLowerCase();
  if (!namespace && !wanted) return network;
  const matches = (o) => (!namespace || o.namespace === namespace) && (!wanted || [o.name, o.namespace,
    ...(o.addresses ?? [])].some((word) => word.toLowerCase().includes(wanted)));
  const nodes = network.nodes.map((node) => {
    const all = wanted !== "" && !namespace && node.name.toLowerCase().includes(wanted);
    const left = (pods) => pods.filter((pod) => all || matches(pod));
    const groups = node.groups.map((group) => ({ ...group, pods: left(group.pods) })).filter((g) => g.pods.length > 0);
    return { ...node, groups, pods: left(node.pods), matches: all };
  }).filter((node) => node.groups.length > 0 || node.matches);
  return { ...network, nodes, pods: nodes.flatMap((node) => node.pods), services: network.services.filter(matches) };
}

/** What an object is called in a sentence. */
export function titleOf(object) {
  if (object.kind === "group") return `namespace ${object.namespace} on node ${object.node}`;
  if (object.kind === "host") return `host of node ${object.name}`;
  if (object.kind === "outer") return object.name;
  return object.kind === "node" ? `node ${object.name}` : `${object.kind} ${object.namespace}/${object.name}`;
}

/** The health of an object in a few words. */
export function healthText({ kind, pods, health }) {
  const down = (pods ?? []).filter((pod) => pod.health.severity !== "ok").length;
  if (health.texts.length > 0) return health.texts.join("; ");
  return kind !== "pod" && down > 0 ? `${down} of ${pods.length} pods not well` : "well";
}
