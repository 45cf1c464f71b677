// Follows a live run. The socket only says that there are new events; rows are fetched above a
// cursor, so nothing is lost or shown twice when the socket, the server or the network fails.

import { coalesced, reconnecting } from "./sockets.js";

const POLL_MS = 5000;

export class Follower {
  #ended = false;
  #socket;

  /** `onRows(html)`, `onChange()` after something happened, `onState(name)` for the reader. */
  constructor({ run, url, cursor, onRows, onChange, onState }) {
    Object.assign(this, { url, cursor, onRows, onChange, onState });
    this.onState("loading");
    this.#socket = reconnecting(`/ws/runs/${run}/`, {
      pollMs: POLL_MS,
      onOpen: (socket) => {
        socket.send(JSON.stringify({ op: "follow", after: this.cursor }));
        this.onState("live");
        this.#pull();
      },
      onMessage: (message) => {
        if (["events", "status", "lagged"].includes(JSON.parse(message.data).type)) this.#pull();
      },
      onLost: (polling) => {
        this.onState(polling ? "polling" : "reconnecting");
        if (polling) this.#pull();
      },
    });
  }

  #pull = coalesced(async () => {
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
      // The cursor has not moved: the next message or poll fetches the same rows.
      this.#socket.drop();
    }
  });

  #end() {
    this.#ended = true;
    this.onState("ended");
    this.#socket.end();
  }
}
