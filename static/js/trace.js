// The page of a run: wires its stream, its keys and, while it is live, what follows it.

import * as charts from "./charts.js";
import { Follower } from "./follow.js";
import { markFound } from "./found.js";
import { Replay, clock } from "./replay.js";
import { RETRY_MS, Stream, chunkOf, rowsOf } from "./stream.js";

const root = document.querySelector("[data-stream]");
const found = document.querySelector("[data-found]"); // instead of the stream, where one searched
const help = document.querySelector("dialog.help");
const toTail = document.querySelector("[data-to-tail]");
const announcer = document.querySelector("[data-announce]");
let stream;
let replay;
let reached = 0; // the seq of the newest event that a replay has shown
let here = null;
let tailing = false;
let unread = 0;

// ---------- navigation ----------

const lastSeq = () => (replay?.active ? reached : Number(root.dataset.lastSeq));

function mark(row) {
  here?.classList.remove("here");
  here = row;
  row.classList.add("here");
  const stop = document.querySelector(`.outline a[data-seq="${row.dataset.seq}"]`);
  document.querySelector(".outline [aria-current]")?.removeAttribute("aria-current");
  stop?.setAttribute("aria-current", "true");
}

async function jump(seq) {
  await stream.load(chunkOf(seq));
  const row = stream.row(seq) ?? stream.rows.find((other) => Number(other.dataset.seq) >= seq);
  if (row) show(row, "center");
}

function show(row, block) {
  mark(row);
  row.scrollIntoView({ block, behavior: "instant" });
  // Rows above are measured as they are first drawn, which may move this one: once more, then.
  requestAnimationFrame(() => row.scrollIntoView({ block, behavior: "instant" }));
}

/** The seq where one is: of the marked row while it is in view, else of the row in the middle. */
function position() {
  const inView = (box) => box.bottom > 0 && box.top < innerHeight;
  if (here?.isConnected && inView(here.getBoundingClientRect())) return Number(here.dataset.seq);
  const middle = document.elementFromPoint(root.getBoundingClientRect().left + 40, innerHeight / 2)?.closest(".event");
  return Number(middle?.dataset.seq ?? 0);
}

function step(stop, direction) {
  const seqs = [...document.querySelectorAll(`.outline a[data-stop="${stop}"]`)].map((a) => Number(a.dataset.seq));
  const at = position();
  const next = direction > 0 ? seqs.find((seq) => seq > at) : seqs.findLast((seq) => seq < at);
  if (next !== undefined) jump(next);
}

/** To the next event that was found or the one before: from the marked one, else to the first. */
function stepFound(direction) {
  const rows = [...found.querySelectorAll(".event")];
  const next = rows[rows.indexOf(here) + direction];
  if (next) show(next, "start");
}

function follow(on) {
  if (tailing !== on) announcer.textContent = on ? "Following the newest event." : "No longer following.";
  tailing = on;
  if (on) showTail();
  labelTail();
}

function showTail() {
  unread = 0;
  jump(lastSeq());
}

function labelTail() {
  toTail.hidden = tailing || unread === 0;
  toTail.textContent = `${unread} new event${unread === 1 ? "" : "s"} ↓`;
}

async function permalink() {
  const seq = position();
  if (!seq) return;
  const address = new URL(`?at=${seq}#e${seq}`, location.href);
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(address.href);
    announcer.textContent = `Link to event ${seq} copied.`;
  } catch {
    announcer.textContent = `Link to event ${seq} is in the address bar.`;
  }
}

const keys = {
  j: () => step("turn", 1),
  k: () => step("turn", -1),
  "]": () => step("gate", 1),
  "[": () => step("gate", -1),
  "/": () => document.querySelector("input[type=search]").focus(),
  e: () => {
    const folds = [...(stream.row(position())?.querySelectorAll("details") ?? [])];
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  },
  g: () => jump(1),
  G: () => jump(lastSeq()),
  ".": () => follow(!tailing),
  y: permalink,
  p: () => replay?.toggle(),
  "?": () => help.showModal(),
};
const keysOfSearch = {
  j: () => stepFound(1),
  k: () => stepFound(-1),
  "/": keys["/"],
  "?": keys["?"],
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.closest("input:not([type=range]), select, textarea, [contenteditable]")) return;
  const action = (found ? keysOfSearch : keys)[event.key];
  if (!action) return;
  event.preventDefault();
  if (root && ["j", "k", "[", "]", "g"].includes(event.key)) follow(false);
  action();
}

function onLink(event) {
  const link = event.target.closest(".event > .seq, .outline a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  follow(false);
  history.pushState(null, "", link.href);
  jump(Number(new URL(link.href).hash.slice(2)));
}

function toHash() {
  const seq = /^#e(\d+)$/.exec(location.hash)?.[1];
  if (seq) jump(Number(seq));
}

// ---------- live updates ----------

function showState(state) {
  const sign = document.querySelector("[data-connection]");
  sign.dataset.state = state;
  sign.textContent = state;
}

function onRows(html, last) {
  root.dataset.lastSeq = last;
  stream.grow(last);
  const rows = rowsOf(html);
  const added = stream.apply(rows);
  if (!added) return;
  announce(rows);
  if (tailing) showTail();
  else unread += added;
  labelTail();
}

let announcement = 0;
function announce(rows) {
  const gates = rows.filter((row) => row.dataset.kind === "gate_result");
  clearTimeout(announcement);
  announcement = setTimeout(() => {
    const results = gates.map((row) => row.querySelector(".line").innerText.replace(/\s+/g, " "));
    announcer.textContent = results.length ? results.join("; ") : `${rows.length} new events`;
  }, 1000);
}

/** Requests all parts: what no frame brings are the actions of the run's owner. */
async function refreshSummary() {
  try {
    const answer = await fetch(root.dataset.summary);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = [...page.querySelectorAll("[data-live-part]")];
    putParts(Object.fromEntries(fresh.map((part) => [part.id, part.innerHTML])));
  } catch {
    // The next poll tries again.
  }
}

const shown = {};

function putParts(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const part = document.getElementById(id);
    if (!part || html === shown[id]) continue;
    shown[id] = html;
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    const figure = part.querySelector("[data-chart]");
    const replacement = fresh.content.querySelector("[data-chart]");
    if (figure && replacement) {
      charts.update(figure, replacement);
      replacement.replaceWith(figure);
    }
    part.replaceChildren(fresh.content);
    if (!figure) charts.start(part);
  }
}

// ---------- replay ----------

const runClock = () => document.querySelector("[data-clock]");
let clockAtEnd = "";

/** Offers the replay once the run has ended. */
function offerReplay() {
  const [opener, bar] = ["[data-replay-open]", "[data-replay]"].map((name) => document.querySelector(name));
  if (replay || lastSeq() === 0) return;
  replay = new Replay(opener, bar, {
    onBegin: onReplayBegin,
    onMoment,
    onEnd: onReplayEnd,
    onFail: () => (announcer.textContent = "The replay did not load. Try again."),
  });
}

function onMoment(now, chunk) {
  runClock().textContent = clock(now);
  hideStopsAfter(now);
  stream.showUntil(now, chunk).then(onNewest, () => setTimeout(() => onMissed(now, chunk), RETRY_MS));
}

/** Requests a failed chunk again, unless the replay has moved on. */
function onMissed(now, chunk) {
  if (replay.active && replay.now === now) onMoment(now, chunk);
}

function onNewest(row) {
  if (!row || Number(row.dataset.seq) === reached) return;
  reached = Number(row.dataset.seq);
  if (!tailing) return;
  mark(row);
  row.scrollIntoView({ block: "center", behavior: "instant" });
}

function onReplayEnd() {
  stream.showAll();
  hideStopsAfter(Infinity);
  runClock().textContent = clockAtEnd;
  showState("ended");
}

function hideStopsAfter(now) {
  for (const stop of document.querySelectorAll(".outline a")) stop.parentElement.hidden = Number(stop.dataset.t) > now;
}

function onReplayBegin() {
  tailing = true;
  clockAtEnd = runClock().textContent;
  showState("replay");
  announcer.textContent = "Replaying the run from its start.";
}

// ---------- beginning ----------

const helpButton = document.querySelector("[data-help]");
helpButton.hidden = false;
helpButton.addEventListener("click", () => help.showModal());
document.addEventListener("keydown", onKey);
if (found) markFound(found, found.dataset.found);

if (root) {
  for (const link of document.querySelectorAll("[data-older], [data-newer]")) link.remove();
  stream = new Stream(root, lastSeq());
  document.addEventListener("click", onLink);
  addEventListener("hashchange", toHash);
  addEventListener("popstate", toHash);
  toTail.addEventListener("click", () => follow(true));
  addEventListener("wheel", (event) => event.deltaY < 0 && tailing && follow(false), { passive: true });
  toHash();
  if (root.dataset.ended === "1") offerReplay();
  else {
    new Follower({
      run: root.dataset.run,
      url: root.dataset.url,
      cursor: lastSeq(),
      onRows,
      onParts: putParts,
      onPoll: refreshSummary,
      onState: (state) => {
        showState(state);
        if (state !== "ended") return;
        if (document.getElementById("actions")) refreshSummary();
        offerReplay();
      },
    });
  }
}
