// The page of a run: its tabs, which load when they are opened, and what follows the run while it is live.

import * as charts from "./charts.js";
import { Follower } from "./follow.js";
import { watchFragments } from "./fragments.js";
import { coalesced } from "./sockets.js";
import { openTrace } from "./trace.js";

const workspace = document.querySelector("[data-run]");
const announcer = document.querySelector("[data-announce]");
const panels = new Map([...workspace.querySelectorAll("[data-panel]")].map((panel) => [panel.dataset.panel, panel]));
const links = new Map([...workspace.querySelectorAll(".tabs a")].map((link) => [link.dataset.tab, link]));
const TAB_OF = { verdict: "results", funnel: "results", rounds: "results", cases: "results" };
const CHOICES = ["q", "show", "actor", "from", "begin", "end"];
const loads = new Map();
const shown = {}; // the newest HTML of each part on the page
let trace; // once its tab is on the page
let moment = null; // of a replay, whose parts are shown

// ---------- tabs ----------

/** The tab that an address names: by an event or a part in its hash, else in its query. */
function tabOf(address) {
  const { hash, searchParams } = new URL(address);
  if (/^#e\d+$/.test(hash)) return "trace";
  const named = searchParams.get("tab");
  if (panels.has(named)) return named;
  const part = hash.slice(1);
  return TAB_OF[part] ?? (panels.has(part) ? part : workspace.dataset.tab);
}

/** What an address chooses of the trace; a trace on the page shows one choice. */
function choice(address) {
  const { searchParams } = new URL(address);
  return CHOICES.map((name) => searchParams.get(name) ?? "").join("\n");
}

/** Loads a tab once, the trace again for another choice; answers when it is on the page. Parts and rows that come
 * meanwhile are put there. */
function load(name) {
  const panel = panels.get(name);
  const known = moment === null ? "" : `&upto=${moment}`;
  const address = name === "trace" && choice(location.href).trim() ? location.href : links.get(name).href + known;
  const wanted = name === "trace" ? choice(address) : "";
  if (panel.childElementCount && panel.dataset.choice === wanted) return Promise.resolve();
  if (loads.get(name)?.wanted !== wanted) {
    const late = { parts: {}, rows: [] };
    const done = insert(name, panel, address, late).finally(() => loads.get(name)?.late === late && loads.delete(name));
    loads.set(name, { late, done, wanted });
  }
  return loads.get(name).done;
}

async function insert(name, panel, address, late) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`tab: ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (loads.get(name)?.late !== late) return; // another choice was made meanwhile
  panel.replaceChildren(...page.getElementById(panel.id).childNodes);
  if (name === "trace") panel.dataset.choice = choice(address);
  else panel.dataset.choice = "";
  for (const part of panel.querySelectorAll("[data-live-part]")) delete shown[part.id];
  putParts(late.parts);
  charts.start(panel);
  watchFragments(panel);
  if (name === "trace") startTrace(late.rows);
}

async function showTab(name, focused = false) {
  try {
    await load(name);
  } catch {
    return location.assign(links.get(name).href);
  }
  for (const [other, panel] of panels) panel.hidden = other !== name;
  for (const [other, link] of links) {
    if (other === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (name === "trace") trace.toHash(focused);
  else if (target && panels.get(name).contains(target)) target.scrollIntoView();
}

function onTab(event) {
  const link = event.target.closest(".tabs a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  showTab(link.dataset.tab);
}

/** A chip, further results and a search change what the trace shows, in place. */
function onChoice(event) {
  const link = event.target.closest("a[data-sift]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  choose(link.href);
}

function onSearch(event) {
  if (!event.target.matches("form[role=search], form[data-range]")) return;
  event.preventDefault();
  const query = new URLSearchParams([["tab", "trace"], ...new FormData(event.target)].filter(([, value]) => value));
  choose(`${location.pathname}?${query}`);
}

/** Shows the events between two moments of the run, in seconds, besides what is chosen already. */
function onRange(begin, end) {
  const address = new URL(location.href);
  for (const name of ["at", "chunk", "from"]) address.searchParams.delete(name);
  for (const [name, seconds] of Object.entries({ begin, end })) address.searchParams.set(name, seconds.toFixed(1));
  address.searchParams.set("tab", "trace");
  address.hash = "";
  choose(address);
}

async function choose(address) {
  history.pushState(null, "", address);
  await showTab("trace");
  announcer.textContent = panels.get("trace").querySelector("[role=status]")?.textContent ?? "The whole trace";
}

/** Links to events lead to the trace, from whichever tab they are on. */
function onEventLink(event) {
  const link = event.target.closest("a[href*='#e']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const address = new URL(link.getAttribute("href"), location.href); // links of a drawing have no such property
  if (address.pathname !== location.pathname || !/^#e\d+$/.test(address.hash) || trace?.isSearch) return;
  event.preventDefault();
  trace?.follow(false);
  history.pushState(null, "", address);
  showTab("trace", event.detail === 0); // of a key, which goes on from there
}

// ---------- live updates ----------

function showState(state) {
  const sign = document.querySelector("[data-connection]");
  sign.dataset.state = state;
  sign.textContent = state;
}

function onRows(html, last) {
  workspace.dataset.lastSeq = last;
  count("all", last);
  loads.get("trace")?.late.rows.push([html, last]);
  trace?.onRows(html, last);
}

/** Requests all parts: what no frame brings are the actions of the run's owner. */
async function refreshSummary() {
  try {
    const answer = await fetch(workspace.dataset.summary);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = [...page.querySelectorAll("[data-live-part]")];
    putParts(Object.fromEntries(fresh.map((part) => [part.id, part.innerHTML])));
  } catch {
    // The next poll tries again.
  }
}

function count(subject, number) {
  const shownCount = document.querySelector(`[data-subject-count="${subject}"]`);
  if (shownCount) shownCount.textContent = number;
}

function putParts(parts) {
  for (const { late } of loads.values()) Object.assign(late.parts, parts);
  for (const [id, html] of Object.entries(parts)) {
    const part = document.getElementById(id);
    if (!part || html === shown[id] || part.hasAttribute("data-held")) continue;
    shown[id] = html;
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    const figure = part.querySelector("[data-chart]");
    const replacement = fresh.content.querySelector("[data-chart]");
    if (figure && replacement) {
      charts.update(figure, replacement);
      replacement.replaceWith(figure);
    }
    const focused = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
    part.replaceChildren(fresh.content);
    if (focused) [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
    if (id === "counts") for (const { dataset, textContent } of part.children) count(dataset.subject, textContent);
    if (!figure) charts.start(part);
  }
}

// ---------- replay ----------

const rewind = coalesced(async () => {
  const upto = moment;
  const answer = await fetch(workspace.dataset.summary + (upto === null ? "" : `?upto=${upto}`));
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if ((upto === null) !== (moment === null)) return; // it began or ended meanwhile
  const parts = [...page.querySelectorAll("[data-live-part]")].filter((part) => upto === null || !["outline", "waterfall"].includes(part.id));
  const time = document.querySelector("[data-clock]").textContent;
  putParts(Object.fromEntries(parts.map((part) => [part.id, part.innerHTML])));
  if (upto === null) return document.body.removeAttribute("data-past");
  document.querySelector("[data-clock]").textContent = time;
  document.body.dataset.past = "shown";
});

/** Shows header, gates, rounds, code and profile as they were by a moment; by null, as they are. */
function onMark(mark) {
  if (mark === moment) return;
  if (moment === null) document.body.dataset.past = "loading"; // nothing of the end is shown meanwhile
  moment = mark;
  rewind().catch(() => {}); // the next moment asks again
}

// ---------- beginning ----------

function startTrace(late = []) {
  trace = openTrace({ workspace, announcer, showState, onMark, onRange });
  for (const [html, last] of late) trace.onRows(html, last);
}

/** Parts that stay in view lie below the header, however many lines it takes. */
const head = document.getElementById("run-head");
new ResizeObserver(() => document.documentElement.style.setProperty("--run-head", `${head.offsetHeight}px`)).observe(head);

workspace.addEventListener("click", onTab);
workspace.addEventListener("click", onChoice);
workspace.addEventListener("submit", onSearch);
panels.get(workspace.dataset.tab).dataset.choice = workspace.dataset.tab === "trace" ? choice(location.href) : "";
document.addEventListener("click", onEventLink);
addEventListener("popstate", () => showTab(tabOf(location.href)));
if (panels.get("trace").childElementCount) startTrace();
if (location.hash) showTab(tabOf(location.href));

if (workspace.dataset.ended !== "1") {
  new Follower({
    run: workspace.dataset.run,
    url: workspace.dataset.url,
    cursor: Number(workspace.dataset.lastSeq),
    onRows,
    onParts: putParts,
    onPoll: refreshSummary,
    onState: (state) => {
      showState(state);
      if (state !== "ended") return;
      workspace.dataset.ended = "1";
      if (document.getElementById("actions")) refreshSummary();
      trace?.offerReplay();
    },
  });
}
