// Calls that wait for a person: what they would do, and the ways to decide.

import { get, path, post } from "./api.js";
import { make, put } from "./dom.js";
import { button, chip, facts, field, tell } from "./widgets.js";
import { shown } from "./format.js";

const DECLINED = "A person declined this call.";
const TITLES = {
  approval: "May this be done?",
  input: "The tool asks",
  "in doubt": "Was this done?",
};

/** Show what waits for a decision on a thread; `decided` is called when a run goes on. Return how many wait. */
export async function showWaiting(place, thread, decided, signal) {
  const page = await get("/runs", { thread, status: "waiting", limit: 5 }, signal);
  const runs = await Promise.all(page.runs.map((run) => get(path`/runs/${run.id}`, undefined, signal)));
  const waiting = runs.flatMap((run) => run.waiting.map((call) => ({ run, call })));
  put(place, waiting.map(({ run, call }) => card(run, call, decided)));
  return waiting.length;
}

function card(run, call, decided) {
  const answer = make("input", { type: "text", autocomplete: "off" });
  const decide = (decision, value) => async () => {
    const sent = { decisions: { [call.call]: { decision, value, asked: call.asked } } };
    const turn = post(path`/runs/${run.id}/decisions`, sent);
    tell("Decided. The run goes on.");
    await turn;
    decided();
  };
  return make("section.approval", { "aria-label": `Decision about ${call.tool}` },
    make("div.row.near", {}, chip("waits for you", "warn"), make("h2.minor", {}, TITLES[call.why] ?? TITLES.approval)),
    make("p", {}, make("code", {}, call.tool), call.why === "input" ? `: ${shown(call.question)}` : null),
    given(call.arguments),
    ways(call, answer, decide));
}

function given(value) {
  const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
  return isObject ? facts(Object.entries(value).map(([name, each]) => [name, shown(each)])) : make("pre.small", {}, shown(value ?? "nothing"));
}

function ways(call, answer, decide) {
  if (call.why === "input") {
    return make("div.stack", {}, field("Your answer", answer),
      make("div.row.near", {}, button("button.main", "Answer", () => decide("pass", answer.value)()), button("button", "Decline", decide("result", DECLINED))));
  }
  if (call.why === "in doubt") {
    return make("div.stack", {}, make("p.quiet.small", {}, "The process ended while this call was at work. Nobody knows whether it took effect."),
      field("What it gave, if it was done", answer),
      make("div.row.near", {}, button("button.main", "It was done", () => decide("result", answer.value || "It was done.")()), button("button", "Do it again", decide("replay"))));
  }
  return make("div.row.near", {}, button("button.main", "Approve", decide("replay")), button("button", "Decline", decide("result", DECLINED)));
}
