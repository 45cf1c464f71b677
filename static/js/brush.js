// The time of a run: a range that is chosen by dragging over the lanes, and a thin copy of the lanes that stays in view.

const MIN_PIXELS = 4;
const SVG = "http://www.w3.org/2000/svg";

/** Lets one drag over `area` along the width of `scale`. `onDrag(begin, end)` and `onChoose(begin, end)`, in shares of the width. */
function watchDrags(area, scale, { onDrag, onChoose }) {
  let from = null; // the share and the pixel at which a press began
  let dragged = false;
  const share = ({ clientX }) => {
    const box = scale.getBoundingClientRect();
    return Math.min(1, Math.max(0, (clientX - box.left) / box.width));
  };
  const range = (event) => [Math.min(from.share, share(event)), Math.max(from.share, share(event))];
  area.addEventListener("pointerdown", (event) => {
    dragged = false;
    from = event.button === 0 ? { share: share(event), x: event.clientX } : null;
  });
  area.addEventListener("pointermove", (event) => {
    if (!from || (!dragged && Math.abs(event.clientX - from.x) < MIN_PIXELS)) return;
    if (!dragged) area.setPointerCapture(event.pointerId);
    dragged = true;
    onDrag(...range(event));
  });
  area.addEventListener("pointerup", (event) => {
    if (from && dragged) onChoose(...range(event));
    from = null;
  });
  area.addEventListener("pointercancel", () => (from = null));
  area.addEventListener("dragstart", (event) => event.preventDefault()); // of a link
  area.addEventListener("click", (event) => {
    if (!dragged) return;
    event.preventDefault();
    event.stopPropagation();
  }, true);
}

function drawing(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export class Timespan {
  #area;
  #strip;
  #at; // the line of the row that one reads
  #t = null;
  #seen = true;

  /** `onRange(begin, end)`, in seconds of the run, once a range has been chosen. */
  constructor(area, strip, onRange) {
    Object.assign(this, { onRange });
    this.#area = area;
    this.#strip = strip;
    this.#watch(area, area.querySelector(".brush"));
    new IntersectionObserver(([{ isIntersecting }]) => {
      this.#seen = isIntersecting;
      this.#update();
    }).observe(area);
    new MutationObserver(() => this.#update()).observe(area.querySelector("#waterfall"), { childList: true });
    this.#update();
  }

  get #lanes() {
    return this.#area.querySelector(".lanes");
  }

  get #ends() {
    return Number(this.#lanes?.dataset.ends);
  }

  /** Marks a moment on the strip, in milliseconds of the run. */
  mark(t) {
    this.#t = t;
    if (this.#at && this.#ends) for (const name of ["x1", "x2"]) this.#at.setAttribute(name, `${Math.min(100, (100 * t) / this.#ends)}%`);
  }

  #watch(area, scale) {
    watchDrags(area, scale, {
      onDrag: (begin, end) => this.#draw(begin, end),
      onChoose: (begin, end) => this.#ends && this.onRange((begin * this.#ends) / 1000, (end * this.#ends) / 1000),
    });
  }

  #draw(begin, end) {
    for (const rect of [this.#area, this.#strip].map((part) => part.querySelector(".brush rect"))) {
      rect?.setAttribute("x", `${(100 * begin).toFixed(2)}%`);
      rect?.setAttribute("width", `${(100 * (end - begin)).toFixed(2)}%`);
    }
  }

  /** Draws the chosen range, and the strip while the lanes are out of view. */
  #update() {
    if (!this.#lanes) return;
    const shown = this.#strip.isConnected && !this.#seen;
    this.#strip.hidden = !shown;
    if (shown) this.#copy();
    const { begin, end } = this.#area.dataset;
    const share = (ms) => Math.min(1, Number(ms) / this.#ends);
    if (begin !== undefined || end !== undefined) this.#draw(share(begin ?? 0), end === undefined ? 1 : share(end));
  }

  #copy() {
    const band = document.createElement("div");
    const lanes = [...this.#lanes.querySelectorAll(".lane")].filter((lane) => !lane.matches(".best, .curve, .axis"));
    const brush = drawing("svg", { class: "brush" });
    brush.append(drawing("rect", { width: "0.00%", height: "100%" }));
    this.#at = drawing("line", { class: "at", y1: 0, y2: "100%" });
    brush.append(this.#at);
    band.append(...lanes.map((lane) => lane.cloneNode(true)), brush);
    this.#strip.replaceChildren(band);
    this.#watch(band, brush);
    if (this.#t !== null) this.mark(this.#t);
  }
}
