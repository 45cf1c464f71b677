// The outline of a trace: a window of stops that moves with what is in view, so that it reaches every one of very many.

const MAX_TRIES = 3;
const MOVE_MS = 150; // of rest, before the outline follows what is in view

export class Outline {
  #nav;
  #loading = 0; // number of the newest request
  #moving = 0;

  /** `onMove()` after another window of stops has come. */
  constructor(nav, onMove = () => {}) {
    this.#nav = nav;
    this.onMove = onMove;
  }

  get stops() {
    return [...this.#nav.querySelectorAll("a[data-stop]")];
  }

  /** Lets arrow keys move among the stops, of which the Tab key reaches one. */
  watchKeys() {
    this.#nav.addEventListener("keydown", (event) => this.#onKey(event));
    new MutationObserver(() => this.#rove()).observe(this.#nav, { childList: true });
    this.#rove();
  }

  focus() {
    this.#nav.querySelector("a[data-stop][tabindex='0']")?.focus();
  }

  #rove(chosen = this.#nav.querySelector("a[data-stop][aria-current]") ?? this.stops.at(0)) {
    for (const stop of this.stops) stop.tabIndex = stop === chosen ? 0 : -1;
  }

  async #onKey(event) {
    const here = event.target.closest("a[data-stop]");
    const key = event.key;
    if (!here || event.ctrlKey || event.metaKey || event.altKey || !["ArrowDown", "ArrowUp", "Home", "End"].includes(key)) return;
    event.preventDefault();
    const seq = Number(here.dataset.seq);
    const wanted = { Home: -Infinity, End: Infinity }[key] ?? (await this.next(seq, key === "ArrowDown" ? 1 : -1));
    if (wanted === undefined) return;
    const [earlier, later] = this.#beyond;
    if (Number.isFinite(wanted) && ((earlier && wanted <= earlier) || (later && wanted >= later))) await this.load(wanted);
    const stops = this.stops.filter((stop) => !stop.parentElement.hidden);
    const next = Number.isFinite(wanted) ? stops.find((stop) => Number(stop.dataset.seq) === wanted) : stops.at(wanted < 0 ? 0 : -1);
    if (!next) return;
    this.#rove(next);
    next.focus();
  }

  /** The seqs of the nearest stops before and after those that are shown; 0 without one. */
  get #beyond() {
    return ["earlier", "later"].map((name) => Number(this.#nav.querySelector(`[data-${name}]`)?.dataset.seq ?? 0));
  }

  /** Marks the stop that a seq belongs to; requests those around it if they are not there. */
  mark(seq) {
    clearTimeout(this.#moving);
    const stops = this.stops;
    const at = stops.findLast((stop) => Number(stop.dataset.seq) <= seq);
    const [earlier, later] = this.#beyond;
    if ((earlier && !at) || (later && seq >= later)) return this.load(seq);
    this.#nav.querySelector("[aria-current]")?.removeAttribute("aria-current");
    if (!at) return undefined;
    at.setAttribute("aria-current", "true");
    if (!this.#nav.contains(document.activeElement)) this.#rove(at);
    const [box, view] = [at.getBoundingClientRect(), this.#nav.getBoundingClientRect()];
    if (box.top < view.top || box.bottom > view.bottom) this.#nav.scrollTop += box.top - view.top - view.height / 3;
    return undefined;
  }

  /** Marks as `mark`, once it is not asked for again for a moment. */
  follow(seq) {
    clearTimeout(this.#moving);
    this.#moving = setTimeout(() => this.mark(seq), MOVE_MS);
  }

  /** Shows the stops around a seq. They stay while the run goes on, until its newest are shown again. */
  async load(seq) {
    const number = (this.#loading += 1);
    try {
      const answer = await fetch(`${this.#nav.dataset.url}?at=${seq}`);
      if (!answer.ok || number !== this.#loading) return;
      this.#nav.innerHTML = await answer.text();
      this.#nav.toggleAttribute("data-held", Boolean(this.#nav.querySelector("[data-later]")));
      this.onMove();
      if (this.#nav.querySelector("a[data-stop]")) this.mark(seq);
    } catch {
      // The server is not reachable; the links lead there.
    }
  }

  /** The seq of the stop after a seq (`direction` 1) or before it (-1); undefined at the end. */
  async next(seq, direction) {
    const isAway = ([earlier, later]) => seq <= earlier || (later && seq >= later);
    for (let tries = 0; tries < MAX_TRIES && isAway(this.#beyond); tries += 1) await this.load(seq); // another request may win
    const seqs = this.stops.map((stop) => Number(stop.dataset.seq));
    const here = direction > 0 ? seqs.find((other) => other > seq) : seqs.findLast((other) => other < seq);
    return here ?? (this.#beyond[direction > 0 ? 1 : 0] || undefined);
  }
}
