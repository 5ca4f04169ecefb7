// Calls that wait for a person: what they would do, and the ways to decide.

import { get, path, post } from "./api.js";
import { freshId, make, put } from "./dom.js";
import { nudgeInbox } from "./inbox.js";
import { button, chip, facts, field, link, tell, threadAt, time } from "./widgets.js";
import { shown } from "./format.js";

const DECLINED = "A person declined this call.";
const MOST_OF_A_THREAD = 20;
const TITLES = {
  approval: "May this be done?",
  input: "The tool asks",
  "in doubt": "Was this done?",
};

/** Show what waits for a decision on a thread; `decided` is called when a run goes on. Return how many wait. */
export async function showWaiting(place, thread, decided, signal) {
  const page = await get("/approvals", { thread, limit: MOST_OF_A_THREAD }, signal);
  put(place, page.approvals.map((waiting) => approvalCard(waiting, { decided })));
  return page.approvals.length;
}

/** What one call is known by. A tool that asks again waits anew. */
export function keyOf(waiting) {
  return JSON.stringify([waiting.run, waiting.call, waiting.asked, waiting.refusal]);
}

/** A call that waits, with the ways to decide it; `about` says where it is from. */
export function approvalCard(waiting, { decided, hasOrigin = false }) {
  const answer = make("input", { type: "text", autocomplete: "off" });
  const decide = (decision, value) => async () => {
    const sent = { decisions: { [waiting.call]: { decision, value, asked: waiting.asked } } };
    const turn = post(path`/runs/${waiting.run}/decisions`, sent);
    tell("Decided. The run goes on.");
    try {
      await turn;
    } finally {
      nudgeInbox();
    }
    decided();
  };
  const card = make("section.approval", { "aria-label": `Decision about ${waiting.tool}` },
    make("div.row.near", {}, chip(waiting.refusal ? "waits elsewhere" : "waits for you", waiting.refusal ? "" : "warn"), make("h2.minor", {}, TITLES[waiting.why] ?? TITLES.approval)),
    hasOrigin && origin(waiting),
    make("p", {}, make("code", {}, waiting.tool), waiting.why === "input" ? `: ${shown(waiting.question)}` : null),
    given(waiting.arguments),
    ways(waiting, answer, decide));
  if (waiting.refusal) refuse(card, waiting.refusal);
  return card;
}

function origin(waiting) {
  return make("p.small.quiet.row.near", {},
    link(threadAt(waiting.thread), waiting.title ?? waiting.first ?? waiting.thread),
    make("span", {}, `${waiting.user ?? "nobody’s"} · agent ${waiting.agent} · `, time(waiting.since)));
}

/** Say why nothing can be decided here, and let no button be pressed for nothing. */
function refuse(card, why) {
  const reason = make("p.notice.warn.small", { id: freshId("refusal") }, why);
  card.insertBefore(reason, card.lastElementChild);
  for (const each of card.lastElementChild.querySelectorAll("button, input")) {
    each.disabled = true;
    each.setAttribute("aria-describedby", reason.id);
  }
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
