// What is not in force, or not as it should be, and what to do about it.

import { html } from "./vendor/preact.mjs";
import { signs } from "./network.mjs";
import { prose } from "./prose.mjs";

export function Findings({ status }) {
  if (!status) return html`<p class="empty">There is no status.</p>`;
  const [findings, notInForce, events, unread] = [status.findings, status.notInForce, status.events, status.unread]
    .map((list) => list ?? []); // an empty list of Go's is null
  return html`<div class="findings">
    <section aria-labelledby="faults"><h2 id="faults">Faults <span class="number">${findings.length}</span></h2>
      ${findings.length === 0 && html`<p class="empty ok"><span aria-hidden="true">${signs.ok}</span>
        ${" "}All is well. ${status.notJudged && prose(status.notJudged)}</p>`}
      <ul class="cards">${findings.map((f) => html`<li key=${`${f.object} ${f.reason}`} class=${`card ${f.severity}`}>
        <p class="head"><span class=${`badge ${f.severity}`}><span aria-hidden="true">${signs[f.severity]}</span>
          ${" "}${f.severity}</span> <strong>${f.object}</strong> <span class="reason">${f.reason}</span></p>
        <p>${f.text}${f.more ? `; and ${f.more} more objects` : ""}</p>
        <p class="remedy"><strong>To do</strong> ${prose(f.remedy)}</p></li>`)}</ul></section>
    <section aria-labelledby="policies"><h2 id="policies">Policies not in force <span class="number">${notInForce.length}</span></h2>
      ${notInForce.length === 0 && html`<p class="empty ok"><span aria-hidden="true">${signs.ok}</span>
        ${" "}${status.policies ? `All ${status.policies} policies are in force.` : "There is no policy."}</p>`}
      <ul class="cards">${notInForce.map((p) => html`<li key=${`${p.kind} ${p.namespace}/${p.name}`} class=${`card ${p.inForce ? "warning" : "failed"}`}>
        <p class="head"><span class=${`badge ${p.inForce ? "warning" : "failed"}`}><span aria-hidden="true">
          ${signs[p.inForce ? "warning" : "failed"]}</span> ${p.inForce ? "in part" : "not in force"}</span>
          ${" "}<strong>${p.kind} ${[p.namespace, p.name].filter(Boolean).join("/")}</strong>
          ${" "}<span class="reason">${p.condition.reason}</span></p>
        <p>${p.condition.message}</p></li>`)}</ul></section>
    ${events.length > 0 && html`<section aria-labelledby="warnings"><h2 id="warnings">Warnings of the last hour</h2>
      <ul class="cards">${events.map((e) => html`<li key=${`${e.object} ${e.reason}`} class="card">
        <p class="head"><strong>${e.object}</strong> <span class="reason">${e.reason}</span>
          ${" "}<span class="reason">${e.count} times, last at <time>${new Date(e.last).toLocaleTimeString()}</time></span></p>
        <p>${e.message}</p></li>`)}</ul></section>`}
    ${unread.length > 0 && html`<section aria-labelledby="unread"><h2 id="unread">Not read</h2>
      <ul class="cards">${unread.map((u) => html`<li key=${u.source} class="card unknown"><strong>${u.source}</strong>: ${u.reason}</li>`)}</ul></section>`}
  </div>`;
}
