// A packet's way from one end to another, step by step, and its answer's way back.

import { html, useMemo, useRef, useState } from "./vendor/preact.mjs";
import { prose } from "./prose.mjs";
import { trace } from "./session.mjs";

const results = { arrives: ["✓", "It arrives, and so does the answer"], refused: ["✕", "It is refused"], lost: ["▲", "It is lost"] };

/** Signs of a trace's steps. */
const signs = { start: "●", policy: "§", service: "◇", tunnel: "⇢", gateway: "⌂", translation: "⇄", outside: "↗", host: "▣", end: "■" };

/**
 * An end of a connection, of what a user writes: [pod/]NAMESPACE/NAME, svc/NAMESPACE/NAME, node/NAME or an address.
 * @returns a TraceEnd; undefined of what is none
 */
export function endOf(text) {
  const words = text.trim().split("/");
  const [first] = words;
  if (words.includes("")) return undefined;
  if (words.length === 1) return /^[0-9a-f.:]+$/i.test(first) && /[.:]/.test(first) ? { kind: "Address", name: first } : undefined;
  if (words.length === 2) {
    return first === "node" ? { kind: "Node", name: words[1] } : { kind: "Pod", namespace: first, name: words[1] };
  }
  const kind = { svc: "Service", service: "Service", pod: "Pod" }[first];
  return words.length === 3 && kind ? { kind, namespace: words[1], name: words[2] } : undefined;
}

/** How many ends are proposed to who writes. */
const proposed = 50;

/** A field for an end, with proposals that contain what is written. */
function EndField({ name, label, value, ends, change }) {
  const words = value.toLowerCase();
  const fitting = useMemo(() => ends.filter((end) => end.includes(words)).slice(0, proposed), [ends, words]);
  return html`<label>${label} <input name=${name} required value=${value} list=${`${name}-list`} autocomplete="off"
      spellcheck=${false} aria-describedby="ends" onInput=${(e) => change(e.target.value)} />
    <datalist id=${`${name}-list`}>${fitting.map((end) => html`<option key=${end} value=${end} />`)}</datalist></label>`;
}

/** Options of a choice, with values: Preact gives an option without one the empty value. */
const options = (...names) => html`<option value="">any</option>${names.map((name) => html`<option key=${name}
  value=${name}>${name}</option>`)}`;

export function Way({ network, question, setQuestion }) {
  const [answer, setAnswer] = useState({});
  const latest = useRef(0);
  const pods = useMemo(() => network.pods.map((p) => `${p.namespace}/${p.name}`), [network.pods]);
  const nodes = useMemo(() => network.nodes.map((n) => n.id), [network.nodes]);
  const services = useMemo(() => network.services.map((s) => `svc/${s.namespace}/${s.name}`), [network.services]);
  const set = (field) => (value) => setQuestion({ ...question, [field]: value });
  const submit = async (event) => {
    event.preventDefault();
    const { from, to, port, protocol, family } = question;
    const [source, destination] = [endOf(from), endOf(to)];
    const wrong = [[from, source], [to, destination]].find(([, end]) => !end);
    if (wrong) {
      return setAnswer({ refusal: { message: `“${wrong[0]}” is no pod, Service, node or address.`,
        remedy: "write NAMESPACE/POD, svc/NAMESPACE/NAME, node/NAME or an address" } });
    }
    const number = ++latest.current; // an answer that comes after a later question is left out
    setAnswer({ asking: true });
    const told = await trace({ source, destination, port, protocol, family }).then((t) => ({ trace: t }), (refusal) => ({ refusal }));
    if (number === latest.current) setAnswer(told);
  };
  return html`<form class="tools question" onSubmit=${submit}>
      <${EndField} name="from" label="From" value=${question.from} ends=${[...pods, ...nodes]} change=${set("from")} />
      <button type="button" aria-label="Exchange the ends" onClick=${() => setQuestion({ ...question, from: question.to,
        to: question.from })}>⇄</button>
      <${EndField} name="to" label="To" value=${question.to} ends=${[...services, ...pods, ...nodes]} change=${set("to")} />
      <label>Port <input name="port" size="8" value=${question.port} placeholder="none: echo"
        onInput=${(e) => set("port")(e.target.value)} /></label>
      <label>Protocol <select name="protocol" value=${question.protocol} onChange=${(e) => set("protocol")(e.target.value)}>
        ${options("tcp", "udp", "sctp")}</select></label>
      <label>Family <select name="family" value=${question.family} onChange=${(e) => set("family")(e.target.value)}>
        ${options("IPv4", "IPv6")}</select></label>
      <button class="primary" disabled=${answer.asking}>Follow</button>
      <p id="ends" class="hint">An end is NAMESPACE/POD, svc/NAMESPACE/NAME, node/NAME or an address. Nothing is sent: OVN's
        simulator follows the packet.</p>
    </form>
    <div aria-live="polite" aria-busy=${Boolean(answer.asking)}>
      ${answer.asking && html`<p class="empty">Following…</p>`}
      ${answer.refusal && html`<section class="refusals" role="alert"><p><strong>No answer.</strong> ${answer.refusal.message}
        ${answer.refusal.remedy && html`<br />To do: ${prose(answer.refusal.remedy)}`}</p></section>`}
      ${answer.trace && html`<${Steps} trace=${answer.trace} />`}
    </div>`;
}

const nameOf = ({ namespace, name, kind }) => `${kind} ${[namespace, name].filter(Boolean).join("/")}`;

function Steps({ trace: { spec, status } }) {
  const [sign, verdict] = results[status.result] ?? ["?", status.result];
  const last = status.reply?.length ? "reply" : "request";
  return html`<section class=${`verdict ${status.result}`} aria-label="Result">
      <h2><span aria-hidden="true">${sign}</span> ${verdict}</h2>
      <p class="ends">${nameOf(spec.source)} → ${nameOf(spec.destination)}${spec.port ? ` port ${spec.port}` : ""}</p>
      <p>${status.reason}</p>
      ${status.remedy && html`<p class="remedy"><strong>To do</strong> ${prose(status.remedy)}</p>`}
      ${status.notes?.length > 0 && html`<ul>${status.notes.map((note) => html`<li>${note}</li>`)}</ul>`}
      ${status.endpoints?.length > 1 && html`<p>The Service chooses among ${status.endpoints.join(", ")}. One was followed.</p>`}
    </section>
    <div class="ways">
      <${Direction} title="The request" steps=${status.request ?? []} ends=${status.result !== "arrives" && last === "request"} />
      ${status.reply?.length > 0 && html`<${Direction} title="The answer" steps=${status.reply}
        ends=${status.result !== "arrives" && last === "reply"} />`}
    </div>`;
}

/** The steps of a packet, in a lane for each node that it passes. */
function Direction({ title, steps, ends }) {
  const deciding = ends ? steps.findLastIndex((step) => step.kind === "policy") : -1;
  const lanes = [];
  steps.forEach((step, i) => {
    const lane = lanes.at(-1);
    if (lane && lane.node === (step.node ?? "")) lane.steps.push([step, i]);
    else lanes.push({ node: step.node ?? "", steps: [[step, i]] });
  });
  return html`<section class="way"><h3>${title}</h3><ol class="lanes">${lanes.map((lane) => html`<li class="lane">
      <h4>${lane.node ? `node ${lane.node}` : "outside of nodes"}</h4>
      <ol class="steps">${lane.steps.map(([step, i]) => html`<li class=${`step ${step.kind} ${i === deciding ? "decides" : ""}`}>
        <span class="sign" aria-hidden="true">${signs[step.kind] ?? "•"}</span>
        <div><p>${step.text}</p>${step.object && html`<p class="object">${step.object}</p>`}
          ${i === deciding && html`<p class="badge failed">This rule decides</p>`}</div></li>`)}</ol></li>`)}</ol></section>`;
}
