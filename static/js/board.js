// Keeps the parts of a page marked data-live fresh: a nudge on the socket, and the same page is asked again.

import { again } from "./again.js";
import { backoff } from "./backoff.js";

const POLL_AFTER_FAILURES = 4;
const POLL_MS = 10_000;

const refresh = again(async () => {
  try {
    const answer = await fetch(location.href, { headers: { "X-Requested-With": "refresh" } });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(part.id);
        const held = part.contains(document.activeElement);
        if (fresh && !held && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
      }
    }
  } catch {
    // The server is away; the next nudge or poll asks again.
  }
});

export function watchBoard() {
  let failures = 0;
  const connect = () => {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws/board/`);
    socket.onopen = () => {
      if (failures) refresh(); // something may have changed while nobody listened
      failures = 0;
    };
    socket.onmessage = refresh;
    socket.onclose = () => {
      failures += 1;
      if (failures > POLL_AFTER_FAILURES) refresh();
      setTimeout(connect, failures > POLL_AFTER_FAILURES ? POLL_MS : backoff(failures));
    };
  };
  connect();
}
