// Reads the parts of a page marked data-fragment when they come into view. A part that the server
// still computes (202) is read again after the time that it asks for.

import { start } from "./charts.js";

async function insert(part) {
  try {
    const answer = await fetch(part.dataset.fragment, { headers: { "X-Requested-With": "fragment" } });
    if (!answer.ok) return; // the link to the part stays
    part.innerHTML = await answer.text();
    start(part);
    part.setAttribute("aria-busy", answer.status === 202);
    if (answer.status === 202) setTimeout(insert, 1000 * Number(answer.headers.get("Retry-After")), part);
  } catch {
    // The server is not reachable; the link to the part stays.
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    insert(target);
  }
}, { rootMargin: "300px" });

export function watchFragments(root = document) {
  for (const part of root.querySelectorAll("[data-fragment]")) seen.observe(part);
}
