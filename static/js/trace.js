// The trace of a run: wires its stream, its keys and its replay.

import { Timespan } from "./brush.js";
import { Folding } from "./folding.js";
import { markFound } from "./found.js";
import { Inspector } from "./inspector.js";
import { Outline } from "./outline.js";
import { Replay, clock } from "./replay.js";
import { RETRY_MS, Stream, chunkOf, rowsOf } from "./stream.js";

const PHONE = "(max-width: 44rem)";

let workspace;
let announcer;
let showState;
let onMark;
let root;
let found; // instead of the stream, where one searched
let help;
let toTail;
let stream;
let outline;
let folding;
let inspector;
let timespan;
let replay;
let reached = 0; // the seq of the newest event that a replay has shown
let here = null;
let tailing = false;
let unread = 0;

// ---------- navigation ----------

const lastSeq = () => (replay?.active ? reached : Number(workspace.dataset.lastSeq));

function mark(row) {
  here?.classList.remove("here");
  here = row;
  row.classList.add("here");
  outline?.mark(Number(row.dataset.seq));
  inspector.show(Number(row.dataset.seq));
  timespan?.mark(Number(row.dataset.t));
}

async function jump(seq) {
  await stream.load(chunkOf(seq));
  const row = stream.row(seq) ?? stream.rows.find((other) => Number(other.dataset.seq) >= seq);
  if (row) show(row, "center");
}

function show(row, block) {
  folding?.reveal(row);
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

async function step(direction) {
  const next = await outline.next(position(), direction);
  if (next !== undefined) jump(next);
}

/** To the next row of a subject or the one before, wherever it is in the trace. */
async function seek(subject, direction) {
  try {
    const answer = await fetch(`${workspace.dataset.seekUrl}?to=${subject}&from=${position()}${direction < 0 ? "&back" : ""}`);
    if (!answer.ok) return;
    const { seq } = await answer.json();
    if (seq === null || seq > lastSeq()) announcer.textContent = `No more ${subject} in this direction.`;
    else jump(seq);
  } catch {
    announcer.textContent = "The server did not answer.";
  }
}

/** Lets the outline follow what is in view; where one is, is asked of the layout once a frame at most. */
let followed = 0;
function followView() {
  if (followed || !root?.isConnected || root.closest("[hidden]")) return;
  followed = requestAnimationFrame(() => {
    followed = 0;
    const seq = position();
    if (!seq) return;
    outline.follow(seq);
    timespan?.mark(Number(stream.row(seq)?.dataset.t ?? 0));
  });
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
  if (on) {
    document.getElementById("outline").removeAttribute("data-held");
    showTail();
  }
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

async function permalink(seq = position()) {
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
  j: () => step(1),
  k: () => step(-1),
  "]": () => seek("gates", 1),
  "[": () => seek("gates", -1),
  "/": () => document.querySelector("input[type=search]").focus(),
  e: () => {
    const folds = [...(stream.row(position())?.querySelectorAll("details") ?? [])];
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  },
  g: () => jump(1),
  G: () => jump(lastSeq()),
  ".": () => follow(!tailing),
  o: () => outline.focus(),
  y: () => permalink(),
  n: () => seek("errors", 1),
  N: () => seek("errors", -1),
  d: () => seek("edits", 1),
  D: () => seek("edits", -1),
  p: () => replay?.toggle(),
  f: () => folding.toggle(),
  "?": () => help.showModal(),
};
const keysOfSearch = {
  j: () => stepFound(1),
  k: () => stepFound(-1),
  "/": keys["/"],
  "?": keys["?"],
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open || help.closest("[hidden]")) return;
  if (event.target.closest("input:not([type=range]), select, textarea, [contenteditable]")) return;
  const action = (found ? keysOfSearch : keys)[event.key];
  if (!action) return;
  event.preventDefault();
  if (!found && ["j", "k", "[", "]", "g", "n", "N", "d", "D"].includes(event.key)) follow(false);
  action();
}

/** Reads a text that was left out of a row, from the page of its event, when its fold is opened. */
async function fill({ target: fold }) {
  if (!fold.open || !fold.matches("[data-more]")) return;
  fold.removeAttribute("data-more");
  const number = [...fold.closest(".body").querySelectorAll("details")].indexOf(fold);
  try {
    const answer = await fetch(fold.querySelector("a").href);
    if (!answer.ok) throw new Error(`event: ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    fold.replaceChildren(...page.querySelectorAll(".event .body details")[number].childNodes);
  } catch {
    fold.toggleAttribute("data-more", true); // the link to it stays
  }
}

/** Shows the event that the address names; `focused` also moves the focus there. */
async function toHash(focused = false) {
  const seq = /^#e(\d+)$/.exec(location.hash)?.[1];
  if (!seq) return;
  await jump(Number(seq));
  if (focused) here?.querySelector(".seq").focus({ preventScroll: true });
}

// ---------- live updates ----------

function onRows(html, last) {
  stream.grow(last);
  const rows = rowsOf(html);
  const added = stream.apply(rows);
  const shown = rows.find((row) => Number(row.dataset.seq) === inspector.shown);
  if (shown) inspector.show(inspector.shown, true);
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
    announcer.textContent = results.length ? results.join("; ") : `${rows.length} new event${rows.length === 1 ? "" : "s"}`;
  }, 1000);
}

// ---------- replay ----------

const runClock = () => document.querySelector("[data-clock]");

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

function onMoment(now, chunk, mark) {
  onMark(mark);
  runClock().textContent = clock(now);
  hideAfter(now);
  stream.showUntil(now, chunk).then(onNewest, () => setTimeout(() => onMissed(now, chunk, mark), RETRY_MS));
}

/** Requests a failed chunk again, unless the replay has moved on. */
function onMissed(now, chunk, mark) {
  if (replay.active && replay.now === now) onMoment(now, chunk, mark);
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
  hideAfter(Infinity);
  onMark(null);
  showState("ended");
}

/** Hides what came later from the outline and the lanes, and the results of what had not ended. */
function hideAfter(now) {
  for (const stop of document.querySelectorAll(".outline a[data-stop]")) {
    stop.parentElement.hidden = Number(stop.dataset.t) > now;
    stop.toggleAttribute("data-open", now !== Infinity && !(Number(stop.dataset.ends) <= now));
  }
  const lanes = document.querySelector(".lanes");
  if (!lanes) return;
  lanes.style.setProperty("--now", `${Math.min(100, (100 * now) / Number(lanes.dataset.ends))}%`);
  for (const mark of lanes.querySelectorAll("[data-t]")) mark.toggleAttribute("hidden", Number(mark.dataset.t) > now);
}

function onReplayBegin() {
  tailing = true;
  here?.classList.remove("here");
  here = null;
  inspector.clear();
  showState("replay");
  announcer.textContent = "Replaying the run from its start.";
}

// ---------- beginning ----------

let wired = false;

/** Wires what outlives a trace that is replaced by another choice of its rows. */
function wireOnce() {
  if (wired) return;
  wired = true;
  document.addEventListener("keydown", onKey);
  document.addEventListener("toggle", fill, true); // it does not bubble
  document.addEventListener("click", chooseRow);
  addEventListener("scroll", followView, { passive: true });
  addEventListener("wheel", (event) => event.deltaY < 0 && tailing && follow(false), { passive: true });
}

/** Chooses the row that is clicked, unless the click does something of its own or selects text. */
function chooseRow({ target }) {
  const row = target.closest(".stream .event");
  if (!row || target.closest("a, button, summary, input, label") || String(getSelection())) return;
  mark(row);
}

/** Opens every fold of the rows on the page, or closes them; long texts stay where they are until they are asked for. */
function expandAll({ currentTarget: button }) {
  const open = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", open);
  for (const fold of document.querySelectorAll(".stream details:not([data-more])")) fold.open = open;
}

/** Wires the trace once it is on the page. `showState(name)` shows the state of the connection,
 * `onMark(moment)` the parts of the page as they were by then, or as they are by `null`;
 * `onRange(begin, end)` shows the events between two seconds of the run. */
export function openTrace(page) {
  ({ workspace, announcer, showState, onMark } = page);
  [root, found, help, toTail] = ["[data-stream]", "[data-found]", "dialog.help", "[data-to-tail]"].map((name) => document.querySelector(name));
  [stream, outline, folding, timespan, replay, here] = [];
  tailing = false;
  unread = 0;
  wireOnce();
  for (const part of document.querySelectorAll("#trace [data-with-js]")) part.hidden = false;
  document.querySelector("[data-help]").addEventListener("click", () => help.showModal());
  document.querySelector("[data-expand]").addEventListener("click", expandAll);
  inspector = new Inspector(document.getElementById("inspector"), permalink);
  const lanes = document.querySelector("[data-timespan]");
  if (lanes) timespan = new Timespan(lanes, document.querySelector("[data-strip]"), page.onRange);
  if (found) {
    if (found.dataset.found) markFound(found, found.dataset.found);
    return { isSearch: true, onRows() {}, offerReplay() {}, follow() {}, toHash() {} };
  }
  for (const link of document.querySelectorAll("[data-older], [data-newer]")) link.remove();
  for (const button of document.querySelectorAll("[data-seek]")) button.addEventListener("click", () => seek(button.dataset.seek, 1));
  stream = new Stream(root, workspace.dataset.url, Number(root.dataset.lastSeq));
  stream.grow(lastSeq());
  outline = new Outline(document.getElementById("outline"), () => replay?.active && hideAfter(replay.now));
  outline.watchKeys();
  folding = new Folding(root, document.querySelector("[data-fold]"));
  toTail.addEventListener("click", () => follow(true));
  if (workspace.dataset.ended === "1") {
    offerReplay();
    if (matchMedia(PHONE).matches) folding.toggle(); // a whole trace is many screens of a phone
  }
  return { isSearch: false, onRows, offerReplay, follow, toHash };
}
