// WebSockets that reconnect, and work that is never done twice at the same time.

const FAILURES_BEFORE_POLLING = 4;

/** Doubles from 150 ms to ten seconds, with jitter. */
const backoff = (failures) =>
  Math.min(10_000, 150 * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);

/** The address of the home page, below which everything is. */
const HOME = new URL(document.documentElement.dataset.home, location.origin);

/** Opens a WebSocket at a path below the home page and reopens it whenever it closes: with backoff at first, then each `pollMs`.
 *
 * `onOpen(socket, again)` after each opening, `onMessage(event)`, `onLost(polling)` after each loss.
 * Returns `drop()`, which closes the socket so that it reopens, and `end()`, which closes it for good. */
export function reconnecting(path, { pollMs, onOpen, onMessage, onLost }) {
  let failures = 0;
  let ended = false;
  let socket;
  const open = () => {
    if (ended) return;
    socket = new WebSocket(new URL(path, HOME).href.replace(/^http/, "ws"));
    socket.onopen = () => {
      const again = failures > 0;
      failures = 0;
      onOpen(socket, again);
    };
    socket.onmessage = onMessage;
    socket.onclose = () => {
      if (ended) return;
      failures += 1;
      const polling = failures > FAILURES_BEFORE_POLLING;
      onLost(polling);
      setTimeout(open, polling ? pollMs : backoff(failures));
    };
  };
  open();
  return {
    drop: () => socket.close(),
    end: () => {
      ended = true;
      socket.close();
    },
  };
}

/** Returns a function that runs `work()`; a call while it runs makes it run once more afterwards. */
export function coalesced(work) {
  let requested = false;
  let running = false;
  return async () => {
    requested = true;
    if (running) return;
    running = true;
    try {
      while (requested) {
        requested = false;
        await work();
      }
    } finally {
      running = false;
    }
  };
}
