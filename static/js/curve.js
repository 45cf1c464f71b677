// The curve of fast_p: a line at p that can be dragged, or moved by the arrow keys. The table of the
// board is fetched anew for each p, so that the server alone ranks.

import { coalesced } from "./sockets.js";

const STEP = 1.02;

export function watchCurve(svg) {
  const { left, right, min, max } = Object.fromEntries(Object.entries(svg.dataset).map(([name, text]) => [name, Number(text)]));
  const handle = svg.querySelector(".handle");
  const field = svg.closest("figure").querySelector("[data-p] [name=p]");
  let p = Number(handle.getAttribute("aria-valuenow"));

  const rank = coalesced(async () => {
    const address = new URL(location.href);
    address.searchParams.set("p", p.toFixed(2));
    for (const name of ["sort", "page"]) address.searchParams.delete(name);
    try {
      const answer = await fetch(address, { headers: { "X-Requested-With": "refresh" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      history.replaceState(history.state, "", address);
      document.getElementById("board").replaceChildren(...page.getElementById("board").childNodes);
    } catch {
      // The server is not reachable: the table stays, and the form can be sent.
    }
  });

  function move(value) {
    p = Math.min(max, Math.max(min, value));
    const share = Math.log(p / min) / Math.log(max / min);
    handle.setAttribute("transform", `translate(${left + share * (right - left)} 0)`);
    handle.setAttribute("aria-valuenow", p.toFixed(2));
    field.value = p.toFixed(2);
    rank();
  }

  function at({ clientX }) {
    const box = svg.getBoundingClientRect();
    const x = ((clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    return min * (max / min) ** ((x - left) / (right - left));
  }

  svg.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    handle.focus();
    svg.setPointerCapture(event.pointerId);
    move(at(event));
  });
  svg.addEventListener("pointermove", (event) => {
    if (svg.hasPointerCapture(event.pointerId)) move(at(event));
  });
  handle.addEventListener("keydown", (event) => {
    const moved = { ArrowRight: p * STEP, ArrowUp: p * STEP, ArrowLeft: p / STEP, ArrowDown: p / STEP, Home: min, End: max }[event.key];
    if (moved === undefined) return;
    event.preventDefault();
    move(moved);
  });
  svg.toggleAttribute("data-ready", true);
}
