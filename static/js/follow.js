// Follows a live run. The socket sends rows with the cursors between which they lie; what a page has
// missed it requests above its own cursor, so nothing is lost or shown twice when the socket, the
// server or the network fails.

import { reconnecting } from "./sockets.js";

const POLL_MS = 5000;
const CONFIRM_CHARACTERS = 64 * 1024;

export class Follower {
  #socket;
  #polling = false;
  #over = false; // a frame has said that the run ended
  #ended = false;
  #wanted = 0; // the cursor of the newest frame
  #fetching = false;
  #received = 0; // characters, on this socket
  #confirmed = 0;

  /** `onRows(html, cursor)`, `onParts({id: html})`, `onPoll()` when there is no socket, `onState(name)`. */
  constructor({ run, url, cursor, onRows, onParts, onPoll, onState }) {
    Object.assign(this, { url, cursor, onRows, onParts, onPoll, onState });
    this.onState("loading");
    this.#socket = reconnecting(`ws/runs/${run}/`, {
      pollMs: POLL_MS,
      onOpen: () => {
        this.#received = this.#confirmed = 0;
        this.#polling = false;
        this.onState("live");
      },
      onMessage: ({ data, target }) => {
        this.#take(JSON.parse(data));
        this.#received += data.length;
        if (this.#received - this.#confirmed < CONFIRM_CHARACTERS) return;
        this.#confirmed = this.#received;
        if (target.readyState === WebSocket.OPEN) target.send(JSON.stringify({ seen: this.#received }));
      },
      onLost: (polling) => {
        this.onState(polling ? "polling" : "reconnecting");
        this.#polling = polling;
        if (polling) this.#fetch().then(this.onPoll);
      },
    });
  }

  #take({ after, cursor, html, parts, ended }) {
    if (this.#ended || cursor === undefined) return;
    this.onParts(parts);
    this.#wanted = Math.max(this.#wanted, cursor);
    this.#over = ended;
    if (after <= this.cursor && cursor > this.cursor) this.#put(html, cursor, cursor);
    if (cursor > this.cursor) this.#fetch();
    else if (ended) this.#end();
  }

  #put(html, cursor, last) {
    this.onRows(html, last);
    this.cursor = Math.max(this.cursor, cursor); // a frame may have come during a request
  }

  /** Requests rows above the cursor, up to the newest that is known of. */
  async #fetch() {
    if (this.#fetching) return;
    this.#fetching = true;
    try {
      let isEnded;
      do {
        const before = this.cursor;
        const answer = await fetch(`${this.url}?after=${before}`);
        if (!answer.ok) throw new Error(`events: ${answer.status}`);
        const reached = Number(answer.headers.get("X-Arena-Cursor"));
        const last = Number(answer.headers.get("X-Arena-Last-Seq"));
        this.#wanted = Math.max(this.#wanted, last);
        if (reached === before && reached < this.#wanted) throw new Error("events: no progress");
        this.#put(await answer.text(), reached, last);
        isEnded = answer.headers.get("X-Arena-Ended") === "1";
      } while (this.cursor < this.#wanted);
      if (this.#over || (isEnded && this.#polling)) this.#end();
    } catch {
      // The cursor has not moved: the next frame or poll requests the same rows.
      this.#socket.drop();
    } finally {
      this.#fetching = false;
    }
  }

  #end() {
    this.#ended = true;
    this.onState("ended");
    this.#socket.end();
  }
}
