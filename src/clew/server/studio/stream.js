// Server-sent events by fetch, taken up again after a cut: every durable event once, from wherever it was lost.

import { Problem, request } from "./api.js";

const PAUSES = [300, 700, 1500, 3000, 5000];

/** The events in a body, one by one: {type, id, data}. */
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = eventOf(block);
      if (event) yield event;
    }
  }
}

function eventOf(block) {
  const found = { type: "message", id: null, data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "event") found.type = value;
    else if (name === "id") found.id = value;
    else if (name === "data") found.data += value;
  }
  return found.data ? { ...found, data: JSON.parse(found.data) } : null;
}

/** The place of an event, to compare: [version, index]. */
export function markOf(id) {
  return id.split(".").map(Number);
}

/** Whether one place is behind another. */
export function isAfter(id, other) {
  if (!other) return true;
  const [version, index] = markOf(id);
  const [least, last] = markOf(other);
  return version > least || (version === least && index > last);
}

/**
 * Hear a stream to its end, whatever happens to the connection.
 *
 * `ask` is {method, where, body, headers}; `last()` says the last event that was seen; `hear(event)` gets each;
 * `cut()` is called when the connection is lost, and `back()` when it is there again.
 */
export async function listen(ask, { last, hear, cut, back, signal }) {
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...ask.headers };
      if (last()) headers["Last-Event-ID"] = last();
      const response = await request(ask.method, ask.where, { ...ask, headers, signal });
      if (failures) back();
      for await (const event of eventsOf(response.body)) {
        failures = 0;
        if (event.type === "end") return;
        if (event.type === "problem") throw problemOf(event.data);
        hear(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && !mayPass(error)) throw error;
    }
    if (signal.aborted) return;
    cut(failures);
    await pause(PAUSES[Math.min(failures, PAUSES.length - 1)], signal);
    failures += 1;
  }
}

function problemOf(data) {
  return new Problem(data.detail, data.code, data.status, data.facts);
}

function mayPass(problem) {
  return problem.code === "unreachable" || problem.status === 503;
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
