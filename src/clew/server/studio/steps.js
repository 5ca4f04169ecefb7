// The steps of a run as a waterfall: what it did, when, for how long, and at what cost.

import { get, path } from "./api.js";
import { draw, make, put } from "./dom.js";
import { chip, problem } from "./widgets.js";
import { cost, count, lasting } from "./format.js";

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
      put(inside, reply.steps.length ? waterfall(reply.steps) : make("p.quiet.small", {}, "No step is known of this run."));
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

/** The steps one below the other in the order in which they began, each where it was in the time of the run. */
function waterfall(steps) {
  const begun = Math.min(...steps.map((step) => step.started));
  const whole = Math.max(1, ...steps.map((step) => step.started - begun + step.ms));
  const inOrder = [...steps].sort((one, other) => one.started - other.started);
  return make("div.waterfall", {},
    make("div.axis.small.quiet", { "aria-hidden": "true" }, [0, 0.5, 1].map((share) => make("span", {}, lasting(whole * share)))),
    make("ol.steps", {}, inOrder.map((step) => row(step, begun, whole))),
    total(steps, whole));
}

function row(step, begun, whole) {
  const after = step.started - begun;
  return make("li", {},
    make("div.row.apart.near", {},
      make("span.row.near", {}, chip(step.kind, KINDS[step.kind] ?? ""), make("span.mono.small", {}, step.name)),
      make("span.small.quiet", {}, `${after > 0 ? `after ${lasting(after)}, ` : ""}${lasting(step.ms)}`)),
    bar(step, begun, whole),
    (step.kind === "model" || step.cost !== null) && make("p.small.quiet", {}, spent(step)),
    step.error && make("p.small.notice.bad", {}, step.error));
}

/** What all steps took together; a cost only if a price is known of every model call. */
function total(steps, whole) {
  const sum = (name) => steps.reduce((all, step) => all + (step[name] ?? 0), 0);
  const isPriced = steps.some((step) => step.cost !== null) && steps.every((step) => step.kind !== "model" || step.cost !== null);
  const all = { input_tokens: sum("input_tokens"), output_tokens: sum("output_tokens"), cost: isPriced ? sum("cost") : null };
  return make("p.small.total", {}, `${count(steps.length, "step")} in ${lasting(whole)} · ${spent(all)}`);
}

function spent(step) {
  return `${step.input_tokens.toLocaleString("en")} tokens in, ${step.output_tokens.toLocaleString("en")} out · ${price(step.cost)}`;
}

function bar(step, begun, whole) {
  const x = ((step.started - begun) / whole) * WIDTH;
  const width = Math.max((step.ms / whole) * WIDTH, 2);
  const left = Math.max(0, Math.min(x, WIDTH - width));
  return draw("svg.bar", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    [0, 0.25, 0.5, 0.75, 1].map((share) => draw("line.guide", { x1: share * WIDTH, x2: share * WIDTH, y1: 0, y2: HEIGHT })),
    draw(`rect.${step.error ? "failed" : "took"}.of-${step.kind in KINDS ? step.kind : "other"}`, { x: left.toFixed(1), y: 1, width: width.toFixed(1), height: 8, rx: 1 }));
}
