// The steps of a run: what it did, when, for how long, and at what cost.

import { get, path } from "./api.js";
import { draw, make, put } from "./dom.js";
import { chip, problem } from "./widgets.js";
import { cost, lasting } from "./format.js";

const WIDTH = 300;
const HEIGHT = 10;
const KINDS = { model: "accent", tool: "good", code: "good", retrieval: "warn", output: "" };

/** A part that shows the steps of a run once it is opened. */
export function stepsOf(run, signal) {
  const inside = make("div.inside", {}, make("p.quiet", {}, "Loading…"));
  const made = make("details", {}, make("summary", {}, "Steps"), inside);
  made.addEventListener("toggle", async () => {
    if (!made.open) return;
    try {
      const reply = await get(path`/runs/${run}/steps`, undefined, signal);
      put(inside, reply.steps.length ? timeline(reply.steps) : make("p.quiet.small", {}, "No step is known of this run."));
    } catch (error) {
      if (!signal.aborted) put(inside, problem(error));
    }
  });
  return made;
}

/** What something cost; nobody makes up a price. */
export function price(millionths) {
  return millionths === null || millionths === undefined ? "no price known" : cost(millionths);
}

function timeline(steps) {
  const begun = Math.min(...steps.map((step) => step.started));
  const whole = Math.max(1, ...steps.map((step) => step.started - begun + step.ms));
  return make("ol.steps", {}, steps.map((step) => make("li", {},
    make("div.row.apart.near", {},
      make("span.row.near", {}, chip(step.kind, KINDS[step.kind] ?? ""), make("span.mono.small", {}, step.name)),
      make("span.small.quiet", {}, lasting(step.ms))),
    bar(step, begun, whole),
    step.kind === "model" && make("p.small.quiet", {}, spent(step)),
    step.error && make("p.small.notice.bad", {}, step.error))));
}

function spent(step) {
  return `${step.input_tokens.toLocaleString("en")} tokens in, ${step.output_tokens.toLocaleString("en")} out · ${price(step.cost)}`;
}

function bar(step, begun, whole) {
  const x = ((step.started - begun) / whole) * WIDTH;
  const width = Math.max((step.ms / whole) * WIDTH, 2);
  const left = Math.max(0, Math.min(x, WIDTH - width));
  return draw("svg.bar", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect.track", { x: 0, y: 4, width: WIDTH, height: 2 }),
    draw(`rect.${step.error ? "failed" : "took"}`, { x: left.toFixed(1), y: 1, width: width.toFixed(1), height: 8, rx: 1 }));
}
