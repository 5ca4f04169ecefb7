// Memory: what is known of a user, or in a thread that is nobody's, where it comes from, and ways to put it right, forget it or take that back.

import { get, path, post, put as replace, text, who } from "../api.js";
import { freshId, make, put } from "../dom.js";
import { ask, button, check, chip, empty, facts, field, link, problem, show as showDialog, tabs, tell, threadAt, time, toggle } from "../widgets.js";
import { asSentence, capital, count, date } from "../format.js";

const PAGE = 50;
const HOW = { stated: "said plainly", model: "noticed", user: "corrected", exercise: "from an exercise" };
const KINDS = { facts: "Facts", rules: "Rules", arcs: "Episodes" };
const ENDS = { superseded: ["replaced", "warn"], corrected: ["put right", "bad"], ended: ["over", ""] };
const SPANS = { day: ["That day", 10], month: ["That month", 7], year: ["That year", 4] };
const COUNTS = {
  facts: "Facts that hold", past: "Facts that held once", superseded: "Of these, replaced", with_quote: "With a quote", quote_found: "Quote found in its turn",
  source_found: "Turn found", by_hand: "Put right by hand", source_erased: "Turn erased", orphaned: "Without a turn", contradicted: "Excluded by another",
};

export async function memory({ place, query, me, signal, go }) {
  const user = me.user ?? query.get("user") ?? who().user;
  const thread = me.user === null ? query.get("thread") : null;
  const owner = thread ? { thread } : me.user === null ? { user } : {};
  const panel = make("div.stack", { role: "tabpanel", id: freshId("panel"), tabindex: "0" });
  const recall = make("div", {});
  let kind = "facts";
  const parameters = (more = {}) => ({ ...owner, ...more });
  const when = period(() => reload());
  /** The entries that are asked for: of a kind, at a time, with what held once. Rules have no times. */
  const selection = () => ({ kind: kind === "arcs" ? "arcs" : "facts", limit: PAGE, at: kind === "rules" ? null : when.at(), past: kind === "facts" && when.past() ? true : null });

  async function load() {
    const page = await get("/memory", parameters(selection()), signal);
    put(recall, toggle("Bring up what is remembered", page.recall, async (on) => {
      await replace("/memory/recall", { on }, parameters());
      tell(on ? "What is remembered may be brought up." : "Nothing that is remembered is brought up. Rules still apply.");
    }));
    show(page);
  }

  function reload() {
    load().catch((error) => put(panel, problem(error)));
  }

  function show(page) {
    const entries = page[kind];
    panel.setAttribute("aria-labelledby", choice.tab(kind).id);
    when.showFor(kind);
    if (entries.length === 0) {
      put(panel, kind !== "rules" && when.at() ? empty("Nothing is known of that time", "Choose another day, or clear the field to see what holds now.") : nothing(kind));
      return;
    }
    const list = make("ul.list", {}, entries.map((entry) => row(kind, entry, acts, page.lineage, Boolean(when.at()))));
    put(panel, list, kind !== "rules" && page.next && more(list, page.next));
  }

  function more(list, cursor) {
    const place = make("div.row", {});
    put(place, button("button", "Show more", async () => {
      const page = await get("/memory", parameters({ ...selection(), cursor }), signal);
      list.append(...page[kind].map((entry) => row(kind, entry, acts, page.lineage, Boolean(when.at()))));
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
    const names = (entries) => entries.map(titleOf).join("; ");
    tell([
      "Undone.",
      done.removed.length > 0 && `Not known any more: ${names(done.removed)}.`,
      done.restored.length > 0 && `Known again: ${names(done.restored)}.`,
    ].filter(Boolean).join(" "));
    await load();
  }

  async function audit() {
    const result = await get("/memory/audit", parameters(), signal);
    await showDialog("Every fact, checked",
      make(`p.notice${result.ok ? ".good" : ".bad"}`, {}, result.ok ? "Every fact is in the words of its turn, and none excludes another." : `${count(result.findings.length, "problem")} found.`),
      facts(Object.entries(COUNTS).map(([name, label]) => [label, String(result.counts[name])])),
      result.findings.length > 0 && make("ul.stack.findings", { tabindex: "0", "aria-label": "Problems" }, result.findings.map((finding) => make("li.card", {}, make("strong", {}, capital(finding.text)), make("p", {}, finding.problem)))));
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

  const choice = tabs("Kinds of memory", KINDS, kind, (key) => { kind = key; reload(); }, panel.id);
  put(place, make("div.page", {},
    make("div.stack", {},
      make("div.row.apart", {}, make("h1", {}, "Memory"),
        make("div.row.near", {}, button("button", "Undo the last change", undo), button("button", "Check every fact", audit), button("button", "Carry it away", carry))),
      make("p.quiet", {}, "What is known of one person, with the turn that each thing comes from.")),
    make("div.row.apart", {}, ownerLine(), recall),
    choice.element, when.element, panel));
  await load();
  return load;
}

/** The field for a day, with the month or the year around it, and the switch for what held once. */
function period(changed) {
  const day = make("input", { type: "date", onchange: update });
  const span = make("select", { onchange: update }, Object.entries(SPANS).map(([key, [label]]) => make("option", { value: key }, label)));
  const clear = make("button", { type: "button", onclick: () => { day.value = ""; update(); day.focus(); } }, "Now");
  const around = field("How much of it", span);
  let past = false;
  const held = toggle("Also what held once", false, (on) => { past = on; changed(); });
  const element = make("div.row.apart.period", { role: "group", "aria-label": "Time" }, make("div.row.near.foot-line", {}, field("As of", day), around, clear), held);
  function update() {
    const isSet = day.value !== "";
    around.hidden = clear.hidden = !isSet;
    held.hidden = isSet;
    changed();
  }
  around.hidden = clear.hidden = true;
  return {
    element,
    at: () => day.value ? day.value.slice(0, SPANS[span.value][1]) : null,
    past: () => past && !day.value,
    showFor: (kind) => { element.hidden = kind === "rules"; held.hidden = kind !== "facts" || day.value !== ""; },
  };
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

/** A fact, a rule or an episode in words. */
function titleOf(entry) {
  return entry.predicate ? sentence(entry) : entry.about ? entry.text : asSentence(entry.summary);
}

/** One entry. What was so at the time that is asked for is not struck out, though it held no longer later. */
function row(kind, entry, acts, lineage = {}, wasSo = false) {
  const title = titleOf(entry);
  const isPast = kind === "facts" && Boolean(entry.ended);
  const quotes = entry.quote ? [entry.quote] : entry.evidence ?? [];
  return make(`li.fact${isPast && !wasSo ? ".past" : ""}`, {},
    make("div.row.apart.near", {}, make("h2.grow", {}, isPast && !wasSo ? make("s", {}, title) : title),
      make("div.row.near", {}, isPast && chip(wasSo ? `${ENDS[entry.end][0]} since` : ENDS[entry.end][0], ENDS[entry.end][1]), kind === "facts" && chip(entry.category))),
    quotes.map((quote) => make("blockquote", {}, `“${quote}”`)),
    kind === "arcs" && arc(entry),
    kind === "facts" && relatives(lineage[entry.id]),
    make("div.row.apart.near", {},
      make("div.row.near.small.quiet", {},
        kind !== "arcs" && make("span", {}, HOW[entry.how ?? "stated"] ?? entry.how),
        kind === "facts" ? make("span", {}, held(entry)) : make("span", {}, time(entry.learned ?? entry.ended ?? 0)),
        entry.times > 1 && make("span", {}, count(entry.times, "time")),
        entry.source && link(threadAt(entry.source.thread, entry.source.version), "where it was said")),
      make("div.row.near", {},
        kind !== "arcs" && !isPast && button("button.small", "Correct", () => acts.correct(entry), { "aria-label": `Correct: ${title}` }),
        button("button.small.bad", "Forget", () => acts.forget(entry), { "aria-label": `Forget: ${title}` }))));
}

/** The time in which a fact holds or held. */
function held(entry) {
  if (!entry.began) return time(entry.learned ?? 0);
  return entry.ended ? `${date(entry.began)} – ${date(entry.ended)}` : `since ${date(entry.began)}`;
}

/** What a fact took the place of, and what took its place. */
function relatives(lineage) {
  if (!lineage) return null;
  const line = (label, fact) => make("p.small", {}, make("span.quiet", {}, `${label} `), fact.ended ? make("s", {}, sentence(fact)) : sentence(fact), fact.ended ? make("span.quiet", {}, ` (${held(fact)})`) : null);
  return make("div.stack.tight", {}, (lineage.replaced ?? []).map((fact) => line("In place of:", fact)), lineage.replacement && line("Replaced by:", lineage.replacement));
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
  const since = make("input", { type: "date" });
  return ask({
    title: "Put it right",
    parts: [
      make("p.quiet", {}, entry.object === undefined ? entry.text : sentence(entry)),
      field(entry.object === undefined ? "What it should say" : `${entry.subject} ${entry.predicate.replaceAll("_", " ").toLowerCase()}`, object),
      entry.object !== undefined && check("It is not so", negated),
      entry.object !== undefined && field("The old text was right until", since, "Leave it empty if it was never so."),
    ],
    yes: "Put right",
    send: () => post(path`/memory/entries/${entry.id}/correct`, { object: object.value, negated: negated.checked, since: since.value || null }, parameters),
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
