// Replays a finished run: shows the events up to a moment on the clock of the run.

const TICK_MS = 100;

/** Formats milliseconds as in the trace: m:ss.t. */
export function clock(ms) {
  const tenths = Math.floor(ms / 100);
  return `${Math.floor(tenths / 600)}:${String(Math.floor(tenths / 10) % 60).padStart(2, "0")}.${tenths % 10}`;
}

export class Replay {
  #bar;
  #opener;
  #marks; // when more of the run became known
  #starts; // when each chunk of the trace began; undefined while nothing is played
  #timer = 0;
  #last = 0; // the real time of the last tick

  /** `onBegin()` before the first moment, `onMoment(now, chunk, mark)` for each, with the last chunk
   * that has begun by then and the moment at which more became known last, `onEnd()` when all is to be shown again, `onFail()` when nothing can be. */
  constructor(opener, bar, { onBegin, onMoment, onEnd, onFail }) {
    Object.assign(this, { onBegin, onMoment, onEnd, onFail, now: 0, ends: 0 });
    this.#opener = opener;
    this.#bar = bar;
    opener.hidden = false;
    opener.addEventListener("click", () => this.toggle());
    this.#part("play").addEventListener("click", () => this.toggle());
    this.#part("whole").addEventListener("click", () => this.stop());
    this.#part("at").addEventListener("input", ({ target }) => this.seek(Number(target.value)));
  }

  get active() {
    return this.#starts !== undefined;
  }

  get playing() {
    return this.#timer !== 0;
  }

  async toggle() {
    if (this.playing) return this.#pause();
    if (!this.active) {
      try {
        await this.#begin();
      } catch {
        this.#opener.textContent = "Replay did not load: try again";
        return this.onFail();
      }
    } else if (this.now >= this.ends) this.now = 0;
    this.#play();
  }

  seek(ms) {
    this.now = Math.min(ms, this.ends);
    this.#show();
  }

  stop() {
    this.#pause();
    this.#starts = undefined;
    this.#bar.hidden = true;
    this.#opener.hidden = false;
    this.onEnd();
    this.#opener.focus({ preventScroll: true });
  }

  async #begin() {
    const answer = await fetch(this.#bar.dataset.moments);
    if (!answer.ok) throw new Error(`moments: ${answer.status}`);
    const { starts, ends, marks } = await answer.json();
    Object.assign(this, { now: 0, ends });
    this.#starts = starts;
    this.#marks = marks;
    this.#part("at").max = ends;
    this.#part("ends").textContent = clock(ends);
    this.#bar.hidden = false;
    this.#opener.hidden = true;
    this.#opener.textContent = "Replay";
    this.#part("play").focus({ preventScroll: true });
    this.onBegin();
  }

  #play() {
    clearInterval(this.#timer); // it may have been asked for twice while its moments came
    this.#last = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#part("play").textContent = "Pause";
    this.#show();
  }

  #pause() {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.#part("play").textContent = "Play";
  }

  #tick() {
    const real = performance.now();
    this.now = Math.min(this.ends, this.now + (real - this.#last) * Number(this.#part("speed").value));
    this.#last = real;
    if (this.now >= this.ends) this.#pause();
    this.#show();
  }

  #show() {
    this.#part("at").value = this.now;
    this.#part("at").setAttribute("aria-valuetext", `${clock(this.now)} of ${clock(this.ends)}`);
    this.#part("now").textContent = clock(this.now);
    const mark = this.#marks.findLast((each) => each <= this.now) ?? 0;
    this.onMoment(this.now, Math.max(0, this.#starts.findLastIndex((start) => start <= this.now)), mark);
  }

  #part(name) {
    return this.#bar.querySelector(`[data-${name}]`);
  }
}
