// Memory: what is known of a user, or in a thread that is nobody's, where it comes from, and ways to put it right, forget it or take that back.

import { get, path, post, put as replace, text, who } from "../api.js";
import { freshId, make, put } from "../dom.js";
import { ask, button, check, chip, empty, field, link, problem, tabs, tell, threadAt, time, toggle } from "../widgets.js";
import { asSentence, capital, count } from "../format.js";

const PAGE = 50;
const HOW = { stated: "said plainly", model: "noticed", user: "corrected", exercise: "from an exercise" };
const KINDS = { facts: "Facts", rules: "Rules", arcs: "Episodes" };

export async function memory({ place, query, me, signal, go }) {
  const user = me.user ?? query.get("user") ?? who().user;
  const thread = me.user === null ? query.get("thread") : null;
  const owner = thread ? { thread } : me.user === null ? { user } : {};
  const panel = make("div.stack", { role: "tabpanel", id: freshId("panel"), tabindex: "0" });
  const recall = make("div", {});
  let kind = "facts";
  const parameters = (more = {}) => ({ ...owner, ...more });

  async function load() {
    const page = await get("/memory", parameters({ kind: kind === "arcs" ? "arcs" : "facts", limit: PAGE }), signal);
    put(recall, toggle("Bring up what is remembered", page.recall, async (on) => {
      await replace("/memory/recall", { on }, parameters());
      tell(on ? "What is remembered may be brought up." : "Nothing that is remembered is brought up. Rules still apply.");
    }));
    show(page);
  }

  function show(page) {
    const entries = page[kind];
    panel.setAttribute("aria-labelledby", choice.tab(kind).id);
    if (entries.length === 0) {
      put(panel, nothing(kind));
      return;
    }
    const list = make("ul.list", {}, entries.map((entry) => row(kind, entry, acts)));
    put(panel, list, kind !== "rules" && page.next && more(list, page.next));
  }

  function more(list, cursor) {
    const place = make("div.row", {});
    put(place, button("button", "Show more", async () => {
      const page = await get("/memory", parameters({ kind, limit: PAGE, cursor }), signal);
      list.append(...page[kind].map((entry) => row(kind, entry, acts)));
      put(place, page.next && more(list, page.next));
    }));
    return place;
  }

  const acts = {
    correct: async (entry) => { if (await correct(entry, parameters())) await again(); },
    forget: async (entry) => { if (await forget(entry, parameters())) await again(); },
  };

  /** Load it anew; the button that had the focus is gone. */
  async function again() {
    await load();
    panel.focus({ preventScroll: true });
  }

  async function undo() {
    const done = await post("/memory/undo", {}, parameters());
    tell(`Taken back: the change that made version ${done.undone}.`);
    await load();
  }

  async function carry() {
    const all = await text("GET", "/memory/export", { parameters: parameters() });
    const address = URL.createObjectURL(new Blob([all], { type: "application/json" }));
    make("a", { href: address, download: `memory-${thread ?? user}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  function ownerLine() {
    if (thread) return make("p", {}, "Of the thread ", link(threadAt(thread), thread), ", which is nobody’s");
    return me.user === null ? whose(user, go) : make("p", {}, `Of ${user}`);
  }

  const choice = tabs("Kinds of memory", KINDS, kind, (key) => { kind = key; load().catch((error) => put(panel, problem(error))); }, panel.id);
  put(place, make("div.page", {},
    make("div.stack", {},
      make("div.row.apart", {}, make("h1", {}, "Memory"),
        make("div.row.near", {}, button("button", "Undo the last change", undo), button("button", "Carry it away", carry))),
      make("p.quiet", {}, "What is known of one person, with the turn that each thing comes from.")),
    make("div.row.apart", {}, ownerLine(), recall),
    choice.element, panel));
  await load();
}

function whose(user, go) {
  const box = make("input", { type: "text", value: user, autocomplete: "off" });
  const form = make("form.row.near.foot-line", {}, field("Whose", box), make("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(`/studio/memory?user=${encodeURIComponent(box.value.trim() || user)}`);
  });
  return form;
}

function nothing(kind) {
  const said = {
    facts: ["Nothing is remembered yet", "Tell the assistant something about yourself, “My name is Ada”, then end the session."],
    rules: ["No rules yet", "Say how you would like to be answered, “Always answer in short sentences.”"],
    arcs: ["No episode has ended yet", "When a session ends, a line about it is kept here."],
  }[kind];
  return empty(...said);
}

/** A fact in words. */
export function sentence(entry) {
  const predicate = (entry.predicate ?? "").replaceAll("_", " ").toLowerCase();
  return capital(`${entry.subject} ${entry.negated ? "not " : ""}${predicate} ${entry.object}`);
}

function row(kind, entry, acts) {
  const title = kind === "facts" ? sentence(entry) : kind === "rules" ? entry.text : asSentence(entry.summary);
  const quotes = entry.quote ? [entry.quote] : entry.evidence ?? [];
  return make("li.fact", {},
    make("div.row.apart.near", {}, make("h2.grow", {}, title), kind === "facts" && chip(entry.category)),
    quotes.map((quote) => make("blockquote", {}, `“${quote}”`)),
    kind === "arcs" && arc(entry),
    make("div.row.apart.near", {},
      make("div.row.near.small.quiet", {},
        entry.how && make("span", {}, HOW[entry.how] ?? entry.how),
        make("span", {}, time(entry.learned ?? entry.ended ?? 0)),
        entry.times > 1 && make("span", {}, count(entry.times, "time")),
        entry.source && link(threadAt(entry.source.thread, entry.source.version), "where it was said")),
      make("div.row.near", {},
        kind !== "arcs" && button("button.small", "Correct", () => acts.correct(entry), { "aria-label": `Correct: ${title}` }),
        button("button.small.bad", "Forget", () => acts.forget(entry), { "aria-label": `Forget: ${title}` }))));
}

function arc(entry) {
  return make("div.row.near", {},
    (entry.themes ?? []).map((theme) => chip(theme, "accent")),
    entry.mood_opened && make("span.small.quiet", {}, `${entry.mood_opened} → ${entry.mood_closed || "…"}`),
    (entry.open_loops ?? []).map((loop) => chip(`open: ${loop}`, "warn")));
}

function correct(entry, parameters) {
  const object = make("input", { type: "text", value: entry.object ?? entry.text, autocomplete: "off" });
  const negated = make("input", { type: "checkbox" });
  negated.checked = entry.negated === true;
  return ask({
    title: "Put it right",
    parts: [
      make("p.quiet", {}, entry.object === undefined ? entry.text : sentence(entry)),
      field(entry.object === undefined ? "What it should say" : `${entry.subject} ${entry.predicate.replaceAll("_", " ").toLowerCase()}`, object),
      entry.object !== undefined && check("It is not so", negated),
    ],
    yes: "Put right",
    send: () => post(path`/memory/entries/${entry.id}/correct`, { object: object.value, negated: negated.checked }, parameters),
  });
}

/** Forget in two steps: the server says what would go, and waits; then it is confirmed. */
export function forget(entry, parameters) {
  return forgetAll([entry.id], parameters);
}

/** The same for several at once. */
export async function forgetAll(ids, parameters) {
  const { waiting } = await post("/memory/forget", { ids }, parameters);
  const done = await ask({
    title: "Forget this?",
    parts: [make("ul.stack", {}, waiting.map((target) => make("li.card", {}, target.text || target.id))), make("p.quiet", {}, "It can be taken back with Undo.")],
    yes: "Forget it",
    bad: true,
    send: () => post("/memory/forget", { ids, confirmed: true }, parameters),
  });
  if (done) tell(done.forgotten.length ? "Forgotten." : "It had changed meanwhile, and was kept.");
  return done;
}
