// Numbers over time as small drawings: lines and bars; and the numbers themselves out of the text of /metrics.

import { draw, make, put } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 96;

/** The samples of a Prometheus text: [{name, labels, value}]. */
export function samplesOf(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match) found.push({ name: match[1], labels: labelsOf(match[2] ?? ""), value: Number(match[3]) });
  }
  return found;
}

function labelsOf(text) {
  return Object.fromEntries([...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((match) => [match[1], match[2]]));
}

/** The sum of what bears a name. */
export function total(samples, name, labels = {}) {
  return samples
    .filter((each) => each.name === name && Object.entries(labels).every(([key, value]) => each.labels[key] === value))
    .reduce((sum, each) => sum + each.value, 0);
}

/** Below which value a share of a histogram's new observations lie, between two looks; null if there are none. */
export function quantile(before, after, name, share) {
  const grown = bucketsOf(after, name).map(([bound, value]) => [bound, value - (new Map(bucketsOf(before, name)).get(bound) ?? 0)]);
  const all = grown.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  let [lower, under] = [0, 0];
  for (const [bound, value] of grown) {
    if (value >= share * all) return bound === Infinity ? lower : lower + (bound - lower) * ((share * all - under) / Math.max(value - under, 1));
    [lower, under] = [bound, value];
  }
  return lower;
}

function bucketsOf(samples, name) {
  return samples
    .filter((each) => each.name === `${name}_bucket`)
    .map((each) => [each.labels.le === "+Inf" ? Infinity : Number(each.labels.le), each.value])
    .sort(([one], [other]) => one - other);
}

/** A line over time. `values` may hold null where nothing was measured. */
export class Chart {
  constructor(title, unit, { most = 60 } = {}) {
    Object.assign(this, { title, unit, most, values: [] });
    this.now = make("span.now", {}, "–");
    this.drawing = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title });
    this.peak = make("p.small.quiet", {});
    this.element = make("figure.card.chart", {}, make("figcaption", {}, make("h3", {}, title), this.now), this.drawing, this.peak);
    this.show();
  }

  add(value) {
    this.values = [...this.values, value].slice(-this.most);
    this.show();
  }

  show() {
    const known = this.values.filter((value) => value !== null);
    const top = Math.max(1e-9, ...known);
    const last = known.at(-1);
    put(this.now, last === undefined ? "–" : this.unit(last));
    put(this.peak, last === undefined ? "Nothing yet" : `At most ${this.unit(Math.max(...known))}`);
    this.drawing.setAttribute("aria-label", last === undefined ? `${this.title}: nothing yet` : `${this.title}: now ${this.unit(last)}, at most ${this.unit(Math.max(...known))}`);
    const step = WIDTH / (this.most - 1);
    const start = this.most - this.values.length;
    const points = this.values.flatMap((value, index) => value === null ? [] : [[(start + index) * step, HEIGHT - 2 - (value / top) * (HEIGHT - 8)]]);
    const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    put(this.drawing,
      draw("line.rule", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
      points.length > 1 && draw("polygon.area", { points: `${points[0][0].toFixed(1)},${HEIGHT} ${line} ${points.at(-1)[0].toFixed(1)},${HEIGHT}` }),
      points.length > 1 && draw("polyline.line", { points: line }));
  }
}

const GAP = 0.2;

/** Numbers of days as bars, one above the other where a day has several kinds; the table beside it has the same numbers. */
export function bars(title, unit, days, kinds) {
  const sums = days.map((day) => kinds.reduce((sum, [name]) => sum + day[name], 0));
  const top = Math.max(1, ...sums);
  const step = WIDTH / Math.max(days.length, 1);
  const all = sums.reduce((sum, value) => sum + value, 0);
  const drawing = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${unit(all)} in ${days.length} days, at most ${unit(Math.max(0, ...sums))} on one` },
    draw("line.rule", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
    days.map((day, index) => column(day, kinds, unit, { x: (index + GAP / 2) * step, width: step * (1 - GAP), top })));
  return make("figure.card.chart", {}, make("figcaption", {}, make("h2.minor", {}, title), make("span.now", {}, unit(all))),
    drawing,
    make("p.small.quiet.row.apart.near", {}, make("span", {}, days[0]?.name ?? ""), make("span", {}, days.at(-1)?.name ?? "")),
    kinds.length > 1 && make("p.small.quiet", {}, kinds.map(([name, label]) => [make(`span.swatch.${name}`, { "aria-hidden": "true" }), ` ${label} `])));
}

function column(day, kinds, unit, { x, width, top }) {
  let y = HEIGHT - 1;
  const parts = kinds.map(([name]) => {
    const height = (day[name] / top) * (HEIGHT - 8);
    y -= height;
    return height > 0 && draw(`rect.${name}`, { x: x.toFixed(2), y: y.toFixed(2), width: width.toFixed(2), height: height.toFixed(2) });
  });
  return draw("g", {}, draw("title", {}, `${day.name}: ${kinds.map(([name, label]) => `${unit(day[name])}${label ? ` ${label}` : ""}`).join(", ")}`), parts);
}
