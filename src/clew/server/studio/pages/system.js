// The system: its health, its store, and its figures as they change.

import { get, text } from "../api.js";
import { Chart, quantile, samplesOf, total } from "../charts.js";
import { make, put } from "../dom.js";
import { chip, every, problem } from "../widgets.js";
import { lasting } from "../format.js";

const LOOK_AGAIN = 2000;
const LOOKS = 5; // what is counted a minute is counted over so many looks
const whole = (value) => Math.round(value).toLocaleString("en");

export async function system({ place, signal, me }) {
  const tiles = make("div.tiles", {});
  const charts = {
    turns: new Chart("Turns a minute", whole),
    latency: new Chart("Latency of turns, 95 %", (seconds) => lasting(seconds * 1000)),
    requests: new Chart("Requests a second", (value) => value.toFixed(1)),
    conflicts: new Chart("Conflicts a minute", whole),
    queue: new Chart("Jobs in the queue", whole),
    streams: new Chart("Open streams", whole),
  };
  const numbers = make("div.charts", {}, Object.values(charts).map((chart) => chart.element));
  const failed = make("div", {});
  put(place, make("div.page", {}, make("h1", {}, "System"),
    make("section.stack", { "aria-label": "Health" }, make("h2", {}, "Health"), tiles),
    make("section.stack", { "aria-label": "Numbers" }, make("h2", {}, "The last two minutes of this process"), failed, numbers)));
  let looks = [];

  async function look() {
    const [alive, ready] = await Promise.all(["/health", "/ready"].map((where) => get(where, undefined, signal).catch((error) => ({ ok: false, problems: [error.code] }))));
    if (signal.aborted) return;
    let samples = null;
    try {
      samples = samplesOf(await text("GET", "/metrics", { signal }));
      put(failed);
    } catch (error) {
      if (signal.aborted) return;
      put(failed, problem(error));
    }
    showHealth(tiles, alive, ready, me, samples);
    if (samples === null) return;
    const now = { at: performance.now(), samples };
    if (looks.length) measure(charts, looks[0], now);
    looks = [...looks, now].slice(-LOOKS);
  }

  await look();
  const stop = every(LOOK_AGAIN, () => look().catch((error) => signal.aborted || put(failed, problem(error))));
  signal.addEventListener("abort", stop);
  return look;
}

function showHealth(tiles, alive, ready, me, samples) {
  const about = samples?.find((each) => each.name === "clew_about");
  const said = [
    ["Server", chip(alive.ok ? "answers" : "does not answer", alive.ok ? "good" : "bad")],
    ["Store", chip(ready.ok ? `${ready.store} is ready` : "not ready", ready.ok ? "good" : "bad")],
    ["Version", about?.labels.version ?? "–"],
    ["Tenant", me.workspace === "default" ? me.tenant : `${me.tenant}, ${me.workspace}`],
  ];
  const key = JSON.stringify([alive, ready, about?.labels]);
  if (tiles.dataset.key === key) return;
  tiles.dataset.key = key;
  put(tiles, said.map(([name, value]) => make("div.card.tile.stack.tight", {}, make("h3.quiet", {}, name), make("div.big", {}, value))));
}

function measure(charts, before, now) {
  const seconds = (now.at - before.at) / 1000;
  const grown = (name) => Math.max(0, total(now.samples, name) - total(before.samples, name));
  charts.turns.add((grown("clew_turns_total") / seconds) * 60);
  charts.latency.add(quantile(before.samples, now.samples, "clew_turn_seconds", 0.95));
  charts.requests.add(grown("clew_requests_total") / seconds);
  charts.conflicts.add((grown("clew_conflicts_total") / seconds) * 60);
  charts.queue.add(total(now.samples, "clew_jobs", { status: "waiting" }) + total(now.samples, "clew_jobs", { status: "running" }));
  charts.streams.add(total(now.samples, "clew_streams_open"));
}
