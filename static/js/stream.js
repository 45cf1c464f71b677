// The rows of a trace: chunks of 100 seqs that load when they come near the view and, in a long
// run, leave again when they are far from it. A row is known by the seq of its event: a newer
// revision replaces it, and the same one twice changes nothing.

const CHUNK = 100;
const KEPT_ROWS = 1500;
const ROW_PIXELS = 44; // a guess, until a chunk has been measured
const NEAR = "1200px";
export const RETRY_MS = 2000; // before a failed chunk is requested again

export const chunkOf = (seq) => Math.floor(Math.max(seq - 1, 0) / CHUNK);

export function rowsOf(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return [...holder.content.querySelectorAll(".event")];
}

/** Put a newer revision in the place of a row; its folds stay open or closed. */
function replace(old, row) {
  const folds = row.querySelectorAll("details");
  for (const [number, fold] of [...old.querySelectorAll("details")].entries()) {
    if (folds[number]) folds[number].open = fold.open;
  }
  old.replaceWith(row);
}

export class Stream {
  #root;
  #chunks = new Map();
  #near;
  #loads = new Map();
  #late = new Map(); // rows that came for a chunk while it was being loaded
  #until = Infinity; // what came later on the run's clock is not shown

  constructor(root, url, lastSeq) {
    this.#root = root;
    this.url = url;
    this.#near = new IntersectionObserver((entries) => this.#moved(entries), { rootMargin: `${NEAR} 0px` });
    for (const section of root.querySelectorAll(".chunk")) this.#adopt(section);
    this.grow(lastSeq);
  }

  get rows() {
    return [...this.#root.querySelectorAll(".event")];
  }

  /** The row of an event, or the row that it is a part of. */
  row(seq) {
    return document.getElementById(`e${seq}`)?.closest(".event");
  }

  /** Makes room for every chunk up to a seq; those that are not on the page yet stay empty. */
  grow(lastSeq) {
    const served = [...this.#chunks.keys()].sort((a, b) => a - b);
    for (let number = 0; number <= chunkOf(lastSeq); number += 1) {
      if (this.#chunks.has(number)) continue;
      const section = document.createElement("section");
      section.className = "chunk";
      section.dataset.chunk = number;
      const rows = Math.min(CHUNK, lastSeq - number * CHUNK);
      this.#empty(section, rows * ROW_PIXELS);
      const next = served.find((other) => other > number);
      this.#root.insertBefore(section, next === undefined ? null : this.#chunks.get(next));
      this.#adopt(section);
      if (number === chunkOf(lastSeq)) this.load(number);
    }
  }

  /** Puts rows where they belong; answers how many were new. Rows of chunks that are away wait there. */
  apply(rows) {
    let added = 0;
    for (const row of rows) {
      for (const part of row.querySelectorAll(".body [id^=e]")) document.querySelector(`.event#${part.id}`)?.remove(); // it came before
      const old = this.row(row.dataset.seq);
      if (old) {
        if (Number(row.dataset.rev) > Number(old.dataset.rev)) replace(old, row);
        continue;
      }
      const number = chunkOf(Number(row.dataset.seq));
      const section = this.#chunks.get(number);
      if (section?.dataset.state !== "full") {
        if (this.#loads.has(number)) this.#late.set(number, [...(this.#late.get(number) ?? []), row]);
        continue;
      }
      const after = [...section.children].findLast((other) => Number(other.dataset.seq) < Number(row.dataset.seq));
      after ? after.after(row) : section.prepend(row);
      row.classList.add("new");
      added += 1;
    }
    return added;
  }

  /** Shows what had come by a moment on the run's clock, in chunks up to a number. Answers the
   * newest row of it once that chunk is on the page; nothing if it is another moment by then. */
  async showUntil(moment, chunk) {
    this.#until = moment;
    for (const [number, section] of this.#chunks) {
      section.hidden = number > chunk;
      this.#veil(section);
    }
    await this.load(chunk);
    if (this.#until !== moment) return undefined;
    return this.rows.findLast((row) => !row.hidden && !row.parentElement.hidden);
  }

  showAll() {
    this.showUntil(Infinity, Infinity);
  }

  #veil(section) {
    for (const row of section.children) {
      row.hidden = Number(row.dataset.t) > this.#until;
      row.removeAttribute("data-open");
    }
    for (const result of section.querySelectorAll(".body [data-t]")) { // of a row that came before it
      result.hidden = Number(result.dataset.t) > this.#until;
      if (result.hidden) result.closest(".event").setAttribute("data-open", "");
    }
  }

  /** Loads a chunk; answers when its rows are on the page. */
  load(number) {
    const section = this.#chunks.get(number);
    if (!section || section.dataset.state === "full") return Promise.resolve();
    if (!this.#loads.has(number)) {
      this.#loads.set(number, this.#fetch(number, section).finally(() => this.#loads.delete(number)));
    }
    return this.#loads.get(number);
  }

  async #fetch(number, section) {
    const answer = await fetch(`${this.url}?chunk=${number}`);
    if (!answer.ok) throw new Error(`events: ${answer.status}`);
    section.replaceChildren(...rowsOf(await answer.text()));
    section.dataset.state = "full";
    section.style.height = "";
    const late = this.#late.get(number) ?? [];
    this.#late.delete(number);
    this.apply(late);
    this.#veil(section);
    this.#leave(section);
  }

  #adopt(section) {
    this.#chunks.set(Number(section.dataset.chunk), section);
    this.#near.observe(section);
  }

  #empty(section, height) {
    section.replaceChildren();
    section.dataset.state = "empty";
    section.style.height = `${height}px`;
  }

  #moved(entries) {
    for (const { isIntersecting, target } of entries) {
      target.toggleAttribute("data-near", isIntersecting);
      if (isIntersecting) this.load(Number(target.dataset.chunk)).catch(() => this.#retry(target));
    }
  }

  #retry(section) {
    setTimeout(() => section.hasAttribute("data-near") && this.#moved([{ isIntersecting: true, target: section }]), RETRY_MS);
  }

  /** Empties the chunks farthest from the view while more rows are here than are kept. One that has
   * just come may be where the reader is about to be taken. */
  #leave(arrived) {
    const full = [...this.#chunks.values()].filter((section) => section.dataset.state === "full");
    let rows = full.reduce((sum, section) => sum + section.childElementCount, 0);
    const middle = innerHeight / 2;
    const away = (section) => {
      const box = section.getBoundingClientRect();
      return Math.max(box.top - middle, middle - box.bottom);
    };
    const far = full.filter((section) => section !== arrived && !section.hasAttribute("data-near"))
      .sort((a, b) => away(b) - away(a));
    for (const section of far) {
      if (rows <= KEPT_ROWS) return;
      rows -= section.childElementCount;
      this.#empty(section, section.offsetHeight);
    }
  }
}
