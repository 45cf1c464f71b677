// Keeps the parts of a page marked data-live fresh: on a message of the socket the page is
// fetched again, at a random moment before the time that the message names.

import { coalesced, reconnecting } from "./sockets.js";

const POLL_MS = 10_000;

const refresh = coalesced(async () => {
  try {
    const answer = await fetch(location.href, { headers: { "X-Requested-With": "refresh" } });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(part.id);
        const focused = part.contains(document.activeElement);
        if (fresh && !focused && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
      }
    }
  } catch {
    // The server is not reachable; the next message or poll tries again.
  }
});

export function watchBoard() {
  reconnecting("ws/board/", {
    pollMs: POLL_MS,
    onOpen: (_, again) => again && refresh(), // something may have changed meanwhile
    onMessage: ({ data }) => setTimeout(refresh, Math.random() * JSON.parse(data).within_ms),
    onLost: (polling) => polling && refresh(),
  });
}
