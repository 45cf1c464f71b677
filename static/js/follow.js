// Follows a live run. The socket only says that there is more; rows are asked for above a cursor,
// so nothing is lost or shown twice when the socket, the server or the network goes away.

import { again } from "./again.js";
import { backoff } from "./backoff.js";

const POLL_AFTER_FAILURES = 4;
const POLL_MS = 5000;

export class Follower {
  #failures = 0;
  #ended = false;
  #socket;

  /** `onRows(html)`, `onChange()` after something happened, `onState(name)` for the reader. */
  constructor({ run, url, cursor, onRows, onChange, onState }) {
    Object.assign(this, { run, url, cursor, onRows, onChange, onState });
    this.onState("loading");
    this.#connect();
  }

  #connect() {
    if (this.#ended) return;
    const address = `${location.origin.replace(/^http/, "ws")}/ws/runs/${this.run}/`;
    const socket = new WebSocket(address);
    this.#socket = socket;
    socket.onopen = () => {
      this.#failures = 0;
      socket.send(JSON.stringify({ op: "follow", after: this.cursor }));
      this.onState("live");
      this.#pull();
    };
    socket.onmessage = (message) => {
      if (["events", "status", "lagged"].includes(JSON.parse(message.data).type)) this.#pull();
    };
    socket.onclose = () => this.#closed();
  }

  #closed() {
    if (this.#ended) return;
    this.#failures += 1;
    const polls = this.#failures > POLL_AFTER_FAILURES;
    this.onState(polls ? "polling" : "reconnecting");
    if (polls) this.#pull();
    setTimeout(() => this.#connect(), polls ? POLL_MS : backoff(this.#failures));
  }

  #pull = again(async () => {
    if (this.#ended) return;
    try {
      const answer = await fetch(`${this.url}?after=${this.cursor}`);
      if (!answer.ok) throw new Error(`events: ${answer.status}`);
      const reached = Number(answer.headers.get("X-Arena-Cursor"));
      const last = Number(answer.headers.get("X-Arena-Last-Seq"));
      this.onRows(await answer.text(), last);
      this.cursor = reached;
      this.onChange();
      if (reached < last) this.#pull();
      else if (answer.headers.get("X-Arena-Ended") === "1") this.#end();
    } catch {
      // The cursor has not moved: the next frame or poll asks for the same rows.
      this.#socket.close();
    }
  });

  #end() {
    this.#ended = true;
    this.onState("ended");
    this.#socket.close();
  }
}
