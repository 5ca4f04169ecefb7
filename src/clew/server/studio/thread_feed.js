// The feed of threads: their changes while the page can be seen, and a poll while there is no feed.

import { nudgeInbox } from "./inbox.js";
import { every } from "./widgets.js";
import { listen } from "./stream.js";

const LOOK_AGAIN = 2500;

/** Follow all threads: `hear(event)` gets each event, and `look()` asks for the list. */
export function followThreads({ hear, look, signal }) {
  let mark = null;
  let stream = new AbortController();
  let stop = null;
  const ask = () => { stop ??= every(LOOK_AGAIN, look); };
  const rest = () => { stop?.(); stop = null; };

  function begin() {
    stream = new AbortController();
    listen({ method: "GET", where: "/events" }, {
      last: () => mark,
      hear: (event) => { rest(); mark = event.id ?? mark; nudgeInbox(); hear(event); },
      cut: ask,
      back: rest,
      signal: stream.signal,
    }).catch(ask); // it is refused for good, like to a user who has too many streams
  }

  /** A browser has few connections to one server: what nobody sees must not hold one. */
  function seen() {
    rest();
    stream.abort();
    if (!document.hidden) begin();
  }

  document.addEventListener("visibilitychange", seen, { signal });
  signal.addEventListener("abort", () => { stream.abort(); rest(); });
  if (!document.hidden) begin();
}
