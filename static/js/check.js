// The page of a check: its steps appear while a worker executes it.

const POLL_MS = 1000;
const SLOW_MS = 5000;
const part = document.querySelector("[data-steps]");

function isActive() {
  return ["queued", "running"].includes(part.querySelector("[data-state]").dataset.state);
}

function focusable() {
  return [...part.querySelectorAll("[tabindex], button")];
}

function show(html) {
  const focused = focusable().indexOf(document.activeElement);
  part.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  if (focused >= 0) focusable()[focused]?.focus({ preventScroll: true });
}

async function poll() {
  let pause = POLL_MS;
  try {
    const answer = await fetch(part.dataset.steps, { cache: "no-store" });
    if (!answer.ok || answer.redirected) return; // logged out: the page stays as it is
    show(await answer.text());
  } catch {
    pause = SLOW_MS; // the server is away: try again later
  }
  if (isActive()) setTimeout(poll, pause);
}

if (isActive()) setTimeout(poll, POLL_MS);
