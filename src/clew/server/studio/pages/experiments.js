// Experiments: how well models and agents answered data sets, two of them side by side, and the data sets.

import { get, path } from "../api.js";
import { make, put } from "../dom.js";
import { button, chip, empty, field, link, problem, tell, threadAt, time } from "../widgets.js";
import { price } from "../steps.js";
import { count, lasting, shown } from "../format.js";

const HERE = "/studio/experiments";
const PAGE = 50;

export async function experiments({ place, query, signal, go }) {
  const [tried, sets] = await Promise.all([get("/experiments", { limit: PAGE }, signal), get("/datasets", { limit: PAGE }, signal)]);
  const compared = make("div.stack", {});
  put(place, make("div.page", {}, make("h1", {}, "Experiments"),
    tried.experiments.length
      ? [make("section.stack", { "aria-label": "Experiments" }, make("ul.list", {}, tried.experiments.map((each) => line(each, signal)))),
        make("section.stack", { "aria-label": "Side by side" }, make("h2", {}, "Side by side"), chooser(tried.experiments, query, go), compared)]
      : empty("No experiment yet", ["Run one with ", make("code", {}, "clew experiments run"), ", and it is here."]),
    make("section.stack", { "aria-label": "Data sets" }, make("h2", {}, "Data sets"),
      sets.datasets.length
        ? make("ul.list", {}, sets.datasets.map((each) => dataset(each, signal)))
        : make("p.quiet", {}, "Make one from threads with ", make("code", {}, "clew datasets make"), "."))));
  const [first, second] = [query.get("first"), query.get("second")];
  if (first && second) await new Comparison(compared, first, second, signal).load();
}

function line(each, signal) {
  const { summary, plan } = each;
  return make("li.stack.tight", {},
    make("div.cells", {},
      make("div.stack.tight", {}, make("h2.name", {}, each.name), make("span.small.quiet.cut", {}, `${plan.subject} · ${plan.dataset} · ${plan.scorer}`)),
      make("span", {}, chip(each.status, each.status === "done" ? "good" : "warn")),
      make("span.small.quiet", {}, time(each.created)),
      make("span.score", {}, score(summary.mean))),
    make("p.small.quiet", {}, `${count(summary.count, "result")}${summary.failed ? `, ${summary.failed} failed` : ""} · ${price(summary.cost)}`),
    opened("Results", (inside) => pages(inside, path`/experiments/${each.name}/results`, (page) => page.results.map(result), signal)));
}

function chooser(found, query, go) {
  const choice = (name) => {
    const made = make("select", {}, found.map((each) => make("option", { value: each.name }, `${each.name} (${each.plan.dataset})`)));
    made.value = query.get(name) ?? found[name === "first" ? Math.min(1, found.length - 1) : 0].name;
    return made;
  };
  const [first, second] = [choice("first"), choice("second")];
  const compare = () => go(`${HERE}?${new URLSearchParams({ first: first.value, second: second.value })}`);
  return make("div.row.foot-line", {}, field("First", first), field("Second", second), make("button.main", { type: "button", onclick: compare }, "Compare"));
}

/** Two experiments, their numbers, and the examples whose scores differ. */
class Comparison {
  constructor(place, first, second, signal) {
    Object.assign(this, { place, first, second, signal, cursor: null, everything: false });
    this.rows = make("ul.list", { "aria-label": "Examples" });
    this.more = make("div", {});
  }

  async load() {
    try {
      const page = await this.page();
      const box = make("input", { type: "checkbox", id: "everything" });
      box.addEventListener("change", () => { this.everything = box.checked; this.again().catch(tell); });
      put(this.place, numbers(page),
        make("div.row.apart", {},
          make("p", {}, `${page.second.name} is better in ${page.better}, worse in ${page.worse}, and the same in ${page.same}.`),
          make("div.check", {}, box, make("label", { for: box.id }, "Also those with the same score"))),
        this.rows, this.more);
      this.show(page);
    } catch (error) {
      if (!this.signal.aborted) put(this.place, problem(error));
    }
  }

  page() {
    const { first, second, everything, cursor } = this;
    return get("/comparisons", { first, second, everything, cursor, limit: PAGE }, this.signal);
  }

  async again() {
    this.cursor = null;
    put(this.rows);
    this.show(await this.page());
  }

  show(page) {
    this.rows.append(...page.examples.map(pair));
    if (!this.rows.children.length) put(this.rows, make("li.quiet", {}, "No example has another score."));
    this.cursor = page.next;
    put(this.more, page.next && button("button", "More", async () => this.show(await this.page())));
  }
}

function numbers({ first, second }) {
  const rows = [
    ["Asked", (each) => each.plan.subject],
    ["Score", (each) => score(each.summary.mean)],
    ["Results", (each) => String(each.summary.count)],
    ["Failed", (each) => String(each.summary.failed)],
    ["Tokens", (each) => `${each.summary.input_tokens.toLocaleString("en")} in, ${each.summary.output_tokens.toLocaleString("en")} out`],
    ["Cost", (each) => price(each.summary.cost)],
    ["Half within", (each) => span(each.summary.p50_ms)],
    ["95 % within", (each) => span(each.summary.p95_ms)],
  ];
  return make("table.numbers", {},
    make("caption.hidden-label", {}, "The numbers of both experiments"),
    make("thead", {}, make("tr", {}, make("td", {}), [first, second].map((each) => make("th", { scope: "col" }, each.name)))),
    make("tbody", {}, rows.map(([name, of]) => make("tr", {}, make("th", { scope: "row" }, name), [first, second].map((each) => make("td", {}, of(each)))))));
}

function pair(each) {
  const kind = each.difference > 0 ? "good" : each.difference < 0 ? "bad" : "";
  const said = each.difference === null ? "not compared" : `${each.difference > 0 ? "+" : ""}${each.difference.toFixed(3)}`;
  return make("li.stack.tight", {},
    make("div.row.apart.near", {}, make("span.question", {}, each.question), chip(said, kind)),
    make("p.small.quiet", {}, "Expected: ", shown(each.expected)),
    make("div.pair", {}, answered(each.first), answered(each.second)));
}

function answered(found) {
  if (!found) return make("p.quiet.small", {}, "It has no result for this example.");
  return make("div.stack.tight", {},
    found.error ? make("p.notice.bad.small", {}, found.error) : make("pre.answer", {}, shown(found.output)),
    make("p.small.quiet", {}, `${score(found.score)} · ${lasting(found.ms)}`));
}

function result(found) {
  return make("li.stack.tight", {}, make("span.question", {}, found.question),
    make("p.small.quiet", {}, "Expected: ", shown(found.expected)), answered(found),
    found.source && link(threadAt(found.source.thread, found.source.version), "where it was said", { class: "small" }));
}

function dataset(each, signal) {
  return make("li.stack.tight", {},
    make("div.row.apart.near", {}, make("h3", {}, each.name), make("span.small.quiet", {}, `${count(each.added, "example")} added · `, time(each.created))),
    opened("Examples", (inside) => pages(inside, path`/datasets/${each.name}/examples`, (page) => page.examples.map(example), signal)));
}

function example(each) {
  return make("li.stack.tight", {},
    make("span.question", {}, each.messages.at(-1)?.content ?? ""),
    make("p.small.quiet", {}, "Expected: ", shown(each.expected)),
    each.source && link(threadAt(each.source.thread, each.source.version), "where it was said", { class: "small" }));
}

/** A part that is filled when it is opened. */
function opened(title, fill) {
  const inside = make("div.inside", {});
  const made = make("details", {}, make("summary", {}, title), inside);
  made.addEventListener("toggle", () => { if (made.open) fill(inside); });
  return made;
}

/** A list that is read page by page. */
async function pages(inside, where, rows, signal) {
  const list = make("ul.stack", {});
  const more = make("div", {});
  async function next(cursor) {
    const page = await get(where, { limit: PAGE, cursor }, signal);
    list.append(...rows(page));
    put(more, page.next && button("button.small", "More", () => next(page.next)));
  }
  put(inside, list, more);
  try {
    await next(null);
    if (!list.children.length) put(inside, make("p.quiet.small", {}, "There is nothing here any more."));
  } catch (error) {
    if (!signal.aborted) put(inside, problem(error));
  }
}

const score = (value) => value === null ? "–" : value.toFixed(3);
const span = (milliseconds) => milliseconds === null ? "–" : lasting(milliseconds);
