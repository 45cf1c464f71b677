// The pane of the chosen event: its record, tokens, cost and link. Nothing is requested while the pane is not shown.

import { coalesced } from "./sockets.js";

export class Inspector {
  #pane;
  #wanted = 0;
  #shown;
  #load = coalesced(() => this.#insert());

  /** `onCopy(seq)` where the link to an event is to be copied. */
  constructor(pane, onCopy) {
    this.#pane = pane;
    pane.addEventListener("click", (event) => {
      if (!event.target.closest("[data-copy-link]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      onCopy(this.#shown);
    });
  }

  get shown() {
    return this.#shown;
  }

  /** Shows the event of a row; again, where the row has changed, unless a note on it is being written. */
  show(seq, again = false) {
    if (again && this.#pane.querySelector("details[open] form")) return;
    if (again) this.#shown = undefined;
    this.#wanted = seq;
    this.#load();
  }

  /** Forgets the event. */
  clear() {
    this.#wanted = 0;
    this.#load();
  }

  async #insert() {
    const seq = this.#wanted;
    if (seq === this.#shown || !this.#pane.getClientRects().length) return;
    try {
      const answer = await fetch(`${this.#pane.dataset.url}?at=${seq}`);
      if (!answer.ok || seq !== this.#wanted) return;
      this.#pane.innerHTML = await answer.text();
      this.#shown = seq;
    } catch {
      // The server is not reachable: the row links to the page of its event.
    }
  }
}
