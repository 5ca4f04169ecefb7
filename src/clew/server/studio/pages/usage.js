// Usage over time: runs, tokens and costs of each day, as charts and as a table.

import { get } from "../api.js";
import { bars } from "../charts.js";
import { make, put } from "../dom.js";
import { empty, field, problem } from "../widgets.js";
import { cost, date } from "../format.js";

const DAY = 86_400_000;
const PERIODS = { 7: "7 days", 30: "30 days", 90: "90 days", 365: "A year" };
const NUMBERS = ["runs", "calls", "input_tokens", "output_tokens", "cost"];
const whole = (value) => value.toLocaleString("en");

export async function usage({ place, query, signal, go }) {
  const period = make("select", {}, Object.entries(PERIODS).map(([value, name]) => make("option", { value }, name)));
  period.value = query.get("days") in PERIODS ? query.get("days") : "30";
  const agents = make("select", {});
  const shown = make("div.stack", {});
  let report = null;

  async function load() {
    report = await get("/usage", { days: period.value }, signal);
    const chosen = agents.options.length ? agents.value : query.get("agent") ?? "";
    const names = [...new Set([...report.days.map((each) => each.agent), chosen].filter(Boolean))].sort();
    put(agents, make("option", { value: "" }, "All agents"), names.map((name) => make("option", { value: name }, name)));
    agents.value = chosen;
    show();
  }

  function show() {
    const rows = report.days.filter((each) => !agents.value || each.agent === agents.value);
    if (rows.length === 0) {
      put(shown, empty("Nothing was used", "No run began in this time. Choose a longer one, or begin a chat."));
      return;
    }
    const days = daysOf(report, rows);
    put(shown,
      !report.complete && make("p.notice.warn", {}, "There were more runs than are counted here. The oldest days are missing."),
      make("div.charts.few", {},
        bars("Runs", whole, days, [["runs", ""]]),
        bars("Tokens", whole, days, [["input_tokens", "in"], ["output_tokens", "out"]]),
        bars("Cost", cost, days, [["cost", ""]])),
      table(days));
  }

  function changed(work) {
    const chosen = Object.entries({ days: period.value, agent: agents.value }).filter(([, value]) => value);
    go(`/studio/usage?${new URLSearchParams(chosen)}`, null, { replace: true });
    return work();
  }

  period.addEventListener("change", () => changed(load).catch((error) => { if (!signal.aborted) put(shown, problem(error)); }));
  agents.addEventListener("change", () => changed(show));
  put(place, make("div.page", {}, make("h1", {}, "Usage"),
    make("div.filters", {}, field("Time", period), field("Agent", agents)), shown));
  await load();
  return load;
}

/** Every day of a report, the oldest first, with the sums of its rows; also days on which nothing was used. */
function daysOf(report, rows) {
  const days = [];
  for (let time = Date.parse(report.since); time <= Date.parse(report.until); time += DAY) {
    const day = new Date(time).toISOString().slice(0, 10);
    const own = rows.filter((each) => each.day === day);
    days.push({ day, name: date(time), ...Object.fromEntries(NUMBERS.map((name) => [name, own.reduce((sum, each) => sum + each[name], 0)])) });
  }
  return days;
}

function table(days) {
  const used = days.filter((day) => day.runs > 0).reverse();
  const head = ["Day (UTC)", "Runs", "Model calls", "Tokens in", "Tokens out", "Cost"];
  return make("div.card.scroll-x", { tabindex: "0", role: "region", "aria-label": "Usage of each day" },
    make("table.numbers", {},
      make("caption.hidden-label", {}, "Usage of each day, the newest first"),
      make("thead", {}, make("tr", {}, head.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, used.map((day) => make("tr", {}, make("th", { scope: "row" }, day.name),
        [whole(day.runs), whole(day.calls), whole(day.input_tokens), whole(day.output_tokens), cost(day.cost)].map((each) => make("td", {}, each)))))));
}
