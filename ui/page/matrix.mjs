// Who may open connections to whom: a matrix of namespaces, or of apps.

import { html, useEffect, useMemo, useState } from "./vendor/preact.mjs";
import { prose } from "./prose.mjs";
import { reachability } from "./session.mjs";

const marks = { all: ["●", "all"], some: ["◐", "some"], none: ["○", "none"] };

/** All, some or none of the connections that were asked for; undefined if none was asked for. */
function markOf({ allowed, asked }) {
  if (asked === 0) return undefined;
  return allowed === asked ? "all" : allowed === 0 ? "none" : "some";
}

const total = (ports) => ports.reduce((sum, p) => ({ allowed: sum.allowed + p.allowed, asked: sum.asked + p.asked }),
  { allowed: 0, asked: 0 });

/**
 * A matrix.
 * @param reach the Reach of the API, with ways[from][to], the ports of each pair of apps
 * @param {function} keyOf the name of the line and the column of an app
 * @returns lines, each with its name and cells in the order of names; a cell has its ends and the ways between them
 */
export function matrixOf({ apps, ways }, keyOf) {
  const names = [...new Set(apps.map(keyOf))];
  const at = new Map(names.map((name, i) => [name, i]));
  const lines = names.map((from) => ({ name: from, cells: names.map((to) => ({ from, to, ways: [] })) }));
  apps.forEach((from, i) => apps.forEach((to, j) => {
    if (ways[i][j]?.length) lines[at.get(keyOf(from))].cells[at.get(keyOf(to))].ways.push({ from, to, ports: ways[i][j] });
  }));
  return lines;
}

const keys = {
  namespaces: (app) => app.namespace,
  apps: (app) => `${app.namespace}/${app.name}`,
};

/** More apps than that are shown by namespaces at first. */
const appLimit = 24;

export function Matrix({ follow }) {
  const [{ reach, refusal, time }, setAnswer] = useState({});
  const [by, setBy] = useState("");
  const [within, setWithin] = useState("");
  const [chosen, choose] = useState(["", ""]);
  const refresh = () => reachability().then((told) => setAnswer({ reach: told, time: new Date() }),
    (told) => setAnswer((before) => ({ ...before, refusal: told })));
  useEffect(() => void refresh(), []);
  const kind = by || (reach?.apps.length > appLimit ? "namespaces" : "apps");
  const lines = useMemo(() => reach && matrixOf(reach, keys[kind]), [reach, kind]);
  const namespaces = [...new Set((reach?.apps ?? []).map((app) => app.namespace))];
  const keep = (name) => !within || name === within || name.startsWith(`${within}/`);
  const shown = lines?.filter((line) => keep(line.name)) ?? [];
  const cell = lines?.find((line) => line.name === chosen[0])?.cells.find((c) => c.to === chosen[1]);
  return html`<div class="tools">
      <div class="switch" role="group" aria-label="Lines and columns">${Object.keys(keys).map((name) => html`<button type="button"
        aria-pressed=${kind === name} onClick=${() => setBy(name)}>${name[0].toUpperCase() + name.slice(1)}</button>`)}</div>
      <label>From <select value=${within} onChange=${(e) => setWithin(e.target.value)}><option value="">all namespaces</option>
        ${namespaces.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <button type="button" onClick=${refresh}>Ask again</button>
      <p class="legend">${Object.values(marks).map(([sign, word]) => html`<span key=${word}><span class=${`mark ${word}`}
        aria-hidden="true">${sign}</span> ${word}</span>`)} <span>${time && `as of ${time.toLocaleTimeString()}`}</span></p>
    </div>
    ${refusal && html`<section class="refusals" role="alert"><p><strong>No answer.</strong> ${refusal.message}
      ${refusal.remedy && html`<br />To do: ${prose(refusal.remedy)}`}</p></section>`}
    ${!reach && !refusal && html`<p class="empty">Asking…</p>`}
    ${reach && html`<div class="map"><div class="tables">
      <p class="hint">Lines open connections to columns. By the policies as they are asked for: at each port that the
        destination's containers declare, or by an echo if they declare none. Pods that no rule tells apart are one.</p>
      <${Grid} lines=${shown} columns=${lines.map((line) => line.name)} chosen=${chosen} choose=${choose} /></div>
      ${cell && html`<${Ways} cell=${cell} follow=${follow} close=${() => choose(["", ""])} />`}</div>`}`;
}

function Grid({ lines, columns, chosen, choose }) {
  return html`<table class="matrix"><caption class="heard">Who may open connections to whom</caption>
    <thead><tr><th scope="col">From ↓ to →</th>${columns.map((name) => html`<th scope="col" key=${name}><span>${name}</span></th>`)}</tr></thead>
    <tbody>${lines.map((line) => html`<tr key=${line.name}><th scope="row">${line.name}</th>
      ${line.cells.map((cell) => html`<td key=${cell.to}><${Mark} ...${{ cell, choose,
        pressed: cell.from === chosen[0] && cell.to === chosen[1] }} /></td>`)}</tr>`)}</tbody></table>`;
}

function Mark({ cell, choose, pressed }) {
  const mark = markOf(total(cell.ways.flatMap((way) => way.ports)));
  if (!mark) return html`<span class="heard">nothing to ask</span>`;
  const [sign, word] = marks[mark];
  return html`<button type="button" class=${`mark ${mark}`} aria-pressed=${pressed} title=${`${cell.from} → ${cell.to}: ${word}`}
    onClick=${() => choose([cell.from, cell.to])}><span aria-hidden="true">${sign}</span><span class="heard">${word}</span></button>`;
}

const portName = ({ port, protocol }) => (protocol === "icmp" ? "echo (ICMP)" : `${port}/${protocol}`);

/** The ways that a cell stands for, each to be followed. */
function Ways({ cell, follow, close }) {
  return html`<aside aria-label="Details">
    <button type="button" class="close" aria-label="Close the details" onClick=${close}>×</button>
    <h2>${cell.from} → ${cell.to}</h2>
    <ul class="pairs">${cell.ways.map(({ from, to, ports }) => html`<li key=${`${from.namespace}/${from.name} ${to.namespace}/${to.name}`}>
      <p>${from.name} → ${to.name}</p><ul>${ports.map((p) => html`<li key=${portName(p)}><span class=${`mark ${markOf(p)}`}
        aria-hidden="true">${marks[markOf(p)][0]}</span> ${portName(p)}: ${marks[markOf(p)][1]} allowed
        ${" "}<button type="button" class="link" onClick=${() => follow({ from: `${from.namespace}/${from.sample}`,
          to: `${to.namespace}/${to.sample}`, port: p.port ? String(p.port) : "", protocol: p.protocol === "icmp" ? "" : p.protocol })}>Follow</button></li>`)}</ul></li>`)}</ul>
  </aside>`;
}
