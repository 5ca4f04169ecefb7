// Search over threads, over what was said in them, and over memory.

import { get, who } from "../api.js";
import { make, put } from "../dom.js";
import { empty, link, problem, threadAt } from "../widgets.js";
import { sentence } from "./memory.js";
import { wordsOf } from "../format.js";

const AROUND = 110;

export async function search({ place, query, me, signal, go }) {
  const box = make("input", { type: "search", value: query.get("q") ?? "", placeholder: "Words that were said", "aria-label": "Search everything" });
  const results = make("div.stack", { "aria-live": "polite" });
  const form = make("form.row.near", { role: "search" }, make("div.grow", {}, box), make("button.main", { type: "submit" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = box.value.trim();
    go(`/studio/search${words ? `?q=${encodeURIComponent(words)}` : ""}`, null, { replace: true });
    run(asked = words);
  });
  let asked = box.value.trim();
  put(place, make("div.page", {}, make("h1", {}, "Search"), form, results));

  async function run(words) {
    if (!words) {
      put(results, empty("Look for anything that was said", "Threads are found by id, title and label; messages and memory by their words, in whatever form: walk finds walking."));
      return;
    }
    put(results, make("p.quiet", {}, "Looking…"));
    try {
      const [named, all, known] = await Promise.all([
        get("/threads", { search: words, limit: 10, last: true }, signal),
        get("/search", { q: words, limit: 30 }, signal),
        remembered(words, me, signal),
      ]);
      const items = all.found.filter((each) => !each.thread.startsWith("memory/"));
      show(words, named.threads, items, known);
    } catch (error) {
      if (!signal.aborted) put(results, problem(error));
    }
  }

  function show(words, threads, items, known) {
    const marked = (text) => highlighted(text, wordsOf(words));
    if (threads.length + items.length + known.length === 0) {
      put(results, empty("Nothing was found", "All of the words must be in one message. Try fewer of them."));
      return;
    }
    put(results,
      group("Threads", threads.map((each) => hit(threadAt(each.id), marked(each.title ?? each.first ?? each.id), marked(each.last ?? each.labels.join(", "))))),
      group("Messages", items.map((each) => hit(threadAt(each.thread, each.version), [each.thread, make("span.quiet", {}, ` · version ${each.version}`)], marked(around(each.text, wordsOf(words)))))),
      group("Memory", known.map((each) => hit(`/studio/memory${me.user === null ? `?user=${encodeURIComponent(who().user)}` : ""}`, marked(each.title), marked(each.quote ?? "")))));
  }

  await run(asked);
  if (!box.value) box.focus({ preventScroll: true });
  return () => run(asked);
}

function group(title, hits) {
  return hits.length ? make("section.stack", { "aria-label": title }, make("h2", {}, `${title} `, make("span.quiet", {}, String(hits.length))), make("ul.list", {}, hits)) : null;
}

function hit(where, title, said) {
  return make("li.stack.tight", {}, link(where, title), make("p.small.quiet", {}, said));
}

/** Facts and rules of the user that hold all of the words. */
async function remembered(words, me, signal) {
  const wanted = wordsOf(words);
  const page = await get("/memory", { user: me.user === null ? who().user : undefined, limit: 200 }, signal);
  const entries = [
    ...page.facts.map((fact) => ({ title: sentence(fact), quote: fact.quote })),
    ...page.rules.map((rule) => ({ title: rule.text, quote: (rule.evidence ?? [])[0] })),
  ];
  return entries.filter(({ title, quote }) => {
    const held = wordsOf(`${title} ${quote ?? ""}`);
    return wanted.every((word) => held.some((each) => alike(each, word)));
  });
}

function alike(one, other) {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  return one === other || (short.length > 3 && long.startsWith(short.slice(0, -1)) && long.length - short.length < 4);
}

/** The part of a text around the first of the words. */
function around(text, words) {
  const line = text.replace(/\s+/g, " ");
  const first = [...line.matchAll(/[\p{L}\p{N}]+/gu)].find((match) => words.some((word) => wordsOf(match[0]).some((each) => alike(each, word))));
  const at = first?.index ?? 0;
  const start = at > AROUND ? line.indexOf(" ", at - AROUND) + 1 : 0;
  const end = Math.min(line.length, at + 2 * AROUND);
  return `${start ? "…" : ""}${line.slice(start, end)}${end < line.length ? "…" : ""}`;
}

/** A text with the words in it marked. */
function highlighted(text, words) {
  return text.split(/([\p{L}\p{N}]+)/u).map((part, index) =>
    index % 2 && wordsOf(part).some((each) => words.some((word) => alike(each, word))) ? make("mark", {}, part) : part);
}
