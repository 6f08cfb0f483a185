// The page: what it asks and when, which view is shown, and what the views share.

import { h, html, render, useEffect, useMemo, useRef, useState } from "./vendor/preact.mjs";
import { MapView } from "./map.mjs";
import { Findings } from "./findings.mjs";
import { Matrix } from "./matrix.mjs";
import { Way } from "./way.mjs";
import { networkOf, signs } from "./network.mjs";
import { prose } from "./prose.mjs";
import { ask, open } from "./session.mjs";

/** What the map is made of. */
const sources = ["status", "topology", "services", "endpoints"];

const views = { map: "Map", way: "Way", matrix: "Who may talk", findings: "Not in force" };

const results = { ok: "All is well", warning: "Warnings", failed: "Something has failed", unknown: "Not all is known" };

/** The items of an answer: those of status and topology are one. */
const itemsOf = (name, body) => (name === "status" || name === "topology" ? body?.items?.[0] : body?.items);

/** Asks for all sources, again each interval (in seconds; 0: never) while the page is visible. */
function useAnswers(interval) {
  const [answers, setAnswers] = useState({ bodies: {}, refusals: {}, time: null, asking: false });
  const askAll = useRef(null);
  askAll.current = async () => {
    setAnswers((before) => ({ ...before, asking: true }));
    const results = await Promise.allSettled(sources.map(ask));
    setAnswers(({ bodies }) => ({
      // An answer that is refused now stays as it was: the page says since when.
      bodies: Object.fromEntries(sources.map((name, i) => [name, results[i].value ?? bodies[name]])),
      refusals: Object.fromEntries(sources.map((name, i) => [name, results[i].reason])),
      time: new Date(),
      asking: false,
    }));
  };
  useEffect(() => void askAll.current(), []);
  useEffect(() => {
    if (!interval) return undefined;
    const timer = setInterval(() => document.hidden || askAll.current(), interval * 1000);
    return () => clearInterval(timer);
  }, [interval]);
  return [answers, () => askAll.current()];
}

/** The view that the address names. */
function useView() {
  const read = () => (location.hash.slice(1) in views ? location.hash.slice(1) : "map");
  const [view, setView] = useState(read());
  useEffect(() => {
    const changed = () => setView(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return view;
}

function Header({ about, view, answers, interval, setInterval, refresh }) {
  const result = itemsOf("status", answers.bodies.status)?.result;
  return html`<header>
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.querySelector("main").focus(); }}>To the content</a>
    <h1><img src="icon.svg" alt="" width="26" height="26" /> Weft</h1>
    <p class="where" title=${about?.server}>${about && [about.context || about.server, about.namespace].filter(Boolean).join(" · ")}</p>
    <nav aria-label="Views">${Object.entries(views).map(([name, title]) => html`<a href=${`#${name}`}
      aria-current=${name === view ? "page" : undefined}>${title}</a>`)}</nav>
    <p class="result" role="status">${result && html`<a href="#findings" class=${`badge ${result}`}>
      <span aria-hidden="true">${signs[result]}</span> ${results[result]}</a>`}</p>
    <div class="refresh">
      <time>${answers.time ? `as of ${answers.time.toLocaleTimeString()}` : "asking…"}</time>
      <button type="button" onClick=${refresh}>Refresh</button>
      <label>every <select value=${interval} onChange=${(e) => setInterval(Number(e.target.value))}>
        <option value="5">5 s</option><option value="15">15 s</option><option value="60">1 min</option>
        <option value="0">never</option></select></label>
    </div>
  </header>`;
}

/** Says which answers are missing, why, and what to do. */
function Refusals({ refusals }) {
  const list = Object.entries(refusals).filter(([, refusal]) => refusal);
  return list.length > 0 && html`<section class="refusals" role="alert" aria-label="Answers that are missing">
    ${list.map(([name, { message, remedy }]) => html`<p key=${name}><strong>No ${name}.</strong> ${message}
      ${remedy && html`<br />To do: ${prose(remedy)}`}</p>`)}</section>`;
}

function Page() {
  const [about, setAbout] = useState(null);
  const [interval, setInterval] = useState(15);
  const [answers, refresh] = useAnswers(interval);
  const view = useView();
  const [question, setQuestion] = useState({ from: "", to: "", port: "", protocol: "", family: "" });
  const [selected, select] = useState("");
  useEffect(() => void ask("about").then(setAbout, () => {}), []);
  useEffect(() => void (document.title = `${views[view]} · Weft`), [view]);
  const items = sources.map((name) => itemsOf(name, answers.bodies[name]));
  const network = useMemo(() => networkOf(Object.fromEntries(sources.map((name, i) => [name, items[i]]))), items);
  const follow = (ends) => {
    setQuestion({ ...question, ...ends });
    location.hash = "way";
  };
  const shown = {
    map: () => html`<${MapView} ...${{ network, selected, select, follow }} />`,
    way: () => html`<${Way} ...${{ network, question, setQuestion }} />`,
    matrix: () => html`<${Matrix} follow=${follow} />`,
    findings: () => html`<${Findings} status=${items[0]} />`,
  };
  return html`<${Header} ...${{ about, view, answers, interval, setInterval, refresh }} />
    <${Refusals} refusals=${answers.refusals} />
    <main id="main" tabindex="-1" aria-busy=${answers.time === null}>${shown[view]()}</main>
    <footer>Drawn by <a href="vendor/cytoscape-license.txt">Cytoscape.js</a>, <a href="vendor/preact-license.txt">Preact</a>${" "}
      and <a href="vendor/htm-license.txt">HTM</a>. ${about && `Weft ${about.version}`}</footer>`;
}

try {
  await open();
  render(h(Page), document.body);
} catch (refusal) {
  render(html`<main class="closed" role="alert"><h1>Weft</h1><p>${refusal.message}</p>
    <p>To do: ${prose(refusal.remedy ?? "")}</p></main>`, document.body);
}
