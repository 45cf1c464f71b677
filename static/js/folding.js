// Folds a trace to one line for each turn, subagent, message and round; a line opens what belongs to it.

const HEADS = '[data-kind="span_begin"], [data-kind="message"]';

export class Folding {
  #root;
  #button;

  constructor(root, button) {
    this.#root = root;
    this.#button = button;
    button.addEventListener("click", () => this.toggle());
    root.addEventListener("click", (event) => this.#onClick(event));
  }

  get active() {
    return this.#root.hasAttribute("data-folded");
  }

  /** Folds the whole trace, or opens all of it; the row that is marked stays in view. */
  toggle() {
    const kept = this.#root.querySelector(".event.here");
    this.#root.toggleAttribute("data-folded");
    this.#button.setAttribute("aria-pressed", this.active);
    for (const row of this.#root.querySelectorAll(".unfolded")) row.classList.remove("unfolded");
    if (kept && this.active) this.reveal(kept);
    kept?.scrollIntoView({ block: "center", behavior: "instant" });
  }

  /** Opens the part that a row belongs to, so that the row is on the page. */
  reveal(row) {
    if (!this.active || row.classList.contains("unfolded")) return;
    for (const each of this.#part(row)) each.classList.add("unfolded");
  }

  /** The rows from the head of a row to the next head; they may lie in several chunks. */
  #part(row) {
    const rows = [...this.#root.querySelectorAll(".event")];
    const at = rows.indexOf(row);
    const begin = Math.max(0, rows.findLastIndex((each, number) => number <= at && each.matches(HEADS)));
    const end = rows.findIndex((each, number) => number > at && each.matches(HEADS));
    return rows.slice(begin, end === -1 ? rows.length : end);
  }

  #onClick({ target }) {
    const head = target.closest(".event");
    if (!this.active || !head?.matches(HEADS) || target.closest("a, button, summary, pre")) return;
    const part = this.#part(head);
    const open = !head.classList.contains("unfolded");
    for (const each of part) each.classList.toggle("unfolded", open);
  }
}
