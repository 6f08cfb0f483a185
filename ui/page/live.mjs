// Live connections: asked of the nodes while they are shown, and told in words.

import { html, useEffect, useState } from "./vendor/preact.mjs";
import { refusedBy, wayOf } from "./connections.mjs";
import { page } from "./network.mjs";
import { prose } from "./prose.mjs";
import { ask } from "./session.mjs";

/** How often they are asked for, in seconds. It costs each node a list of what it tracks. */
const interval = 5;

/** Before the first answer. refused is what refusedBy has given; refusals are by the name of the question. */
const nothing = { flows: undefined, refused: undefined, since: undefined, refusals: {} };

/** What was known, with what the last questions were answered. An answer that is refused now stays as it was. */
const after = (before, flows, hits) => ({
  flows: flows.value?.items[0] ?? before.flows,
  refused: hits.value ? refusedBy(before.refused, hits.value.items ?? []) : before.refused,
  since: before.since ?? (hits.value && new Date()),
  refusals: { connections: flows.reason, "count of what policies refuse": hits.reason },
});

/** Asks who talks to whom, again and again while it is on and the page is visible. */
export function useLive(on) {
  const [live, setLive] = useState(nothing);
  useEffect(() => {
    if (!on) return undefined;
    let [asking, ended] = [false, false];
    const look = async () => {
      if (asking || document.hidden) return;
      asking = true;
      const [flows, hits] = await Promise.allSettled(["flows", "hits"].map(ask));
      asking = false;
      if (!ended) setLive((before) => after(before, flows, hits));
    };
    look();
    const timer = setInterval(look, interval * 1000);
    return () => {
      ended = true;
      clearInterval(timer);
      setLive(nothing);
    };
  }, [on]);
  return live;
}

const many = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

const sum = (list, field) => list.reduce((total, item) => total + item[field], 0);

/** Why an answer has not all connections, a sentence each. */
const missing = ({ nodesUnanswered, nodesAsked, omitted, unread, fromOwnNode }) => [
  fromOwnNode && `${fromOwnNode} from pods' own nodes, such as kubelet's probes, are left out: \`weft flows --all\` shows them.`,
  nodesUnanswered && `${nodesUnanswered} of ${nodesAsked} nodes have not answered.`,
  omitted && `${many(omitted, "connection")} more than an answer holds: show one namespace, by \`weft ui -n NAMESPACE\`.`,
  ...(unread ?? []).map(({ source, reason }) => `Names are missing, since ${source} cannot be read: ${reason}.`),
].filter(Boolean);

/** All of it in numbers: what is drawn, what is not, and why an answer is missing. */
export function Summary({ live, conversations, refused, drawing }) {
  const { flows, refusals, since } = live;
  const [total, unanswered] = ["connections", "unanswered"].map((field) => sum(conversations, field));
  return html`<section class="live" aria-label="Live connections">
    ${Object.entries(refusals).filter(([, refusal]) => refusal).map(([name, { message, remedy }]) => html`<p key=${name}
      class="refusals" role="alert"><strong>No ${name}.</strong> ${message} ${remedy && html`<br />To do: ${prose(remedy)}`}</p>`)}
    ${!flows && !refusals.connections && html`<p class="hint">Asking the nodes…</p>`}
    ${flows && html`<p class="hint"><span class="talk answered">—</span> ${many(total, "connection")} between
      ${" "}${many(conversations.length, "pair")} of ends, <span class="talk unanswered">▲</span> ${unanswered} unanswered
      ${since && html`, <span class="talk refused">✕</span> ${many(sum(refused, "refused"), "packet")} refused by policies since
        ${" "}${since.toLocaleTimeString()}`}. As of ${new Date(flows.time).toLocaleTimeString()}.
      ${missing(flows).map((text) => html` ${prose(text)}`)}
      ${drawing && drawing.omitted > 0 && ` ${many(drawing.omitted, "edge")} more not drawn: see the table.`}
      ${drawing && drawing.elsewhere > 0 && ` ${many(drawing.elsewhere, "pair")} not drawn: an end is not on the map.`}</p>`}
  </section>`;
}

const portOf = ({ protocol, port }) => (port === undefined ? protocol : `${port}/${protocol.toLowerCase()}`);

const unansweredText = ({ unanswered }) => (unanswered === 0 ? "" : `▲ ${unanswered} unanswered`);

function Follow({ conversation, follow }) {
  const way = wayOf(conversation);
  return way && html`<button type="button" class="link" onClick=${() => follow(way)}
    aria-label=${`Follow the way from ${way.from} to ${way.to}`}>Follow</button>`;
}

/** Conversations, and what policies have refused, in words. */
export function LiveTables({ conversations, refused, follow }) {
  const [whole, showWhole] = useState(false);
  const shown = whole ? conversations : conversations.slice(0, page);
  return html`<table class="conversations">
      <caption>Connections (${conversations.length})</caption>
      <thead><tr>${["From", "To", "Service", "Port", "Connections", "Answer", "Way"].map((name) => html`<th scope="col"
        key=${name}>${name}</th>`)}</tr></thead>
      <tbody>${shown.map((c) => html`<tr key=${c.id}><th scope="row">${c.source.name}</th><td>${c.destination.name}</td>
        <td>${c.service?.name}</td><td>${portOf(c)}</td><td>${c.connections}</td><td>${unansweredText(c)}</td>
        <td><${Follow} conversation=${c} follow=${follow} /></td></tr>`)}</tbody>
      ${shown.length < conversations.length && html`<tfoot><tr><td colspan="7"><button type="button"
        onClick=${() => showWhole(true)}>Show all ${conversations.length}</button></td></tr></tfoot>`}
    </table>
    <table class="refused">
      <caption>Refused by policies (${refused.length})</caption>
      <thead><tr>${["Policy", "Rule", "Node", "Packets"].map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
      <tbody>${refused.map((r) => html`<tr key=${r.id}><th scope="row">${r.policy}</th><td>${r.rule}</td><td>${r.node}</td>
        <td>✕ ${r.refused}</td></tr>`)}</tbody>
    </table>`;
}

/** The conversations of an object, and what policies have refused there. */
export function Conversations({ conversations, refused, follow }) {
  return html`${conversations.length > 0 && html`<h3>Connections</h3>
    <ul class="related">${conversations.slice(0, page).map((c) => html`<li key=${c.id}>${c.source.name} → ${c.destination.name}
      ${" "}${portOf(c)}${c.service && ` by ${c.service.name}`}: ${c.connections} ${unansweredText(c)}
      ${" "}<${Follow} conversation=${c} follow=${follow} /></li>`)}
      ${conversations.length > page && html`<li>and ${conversations.length - page} more</li>`}</ul>`}
    ${refused.length > 0 && html`<h3>Refused by policies</h3>
    <ul class="related">${refused.map((r) => html`<li key=${r.id}>✕ ${many(r.refused, "packet")} by ${r.policy}, ${r.rule}</li>`)}</ul>`}`;
}
