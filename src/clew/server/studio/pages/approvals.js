// The inbox: every call that waits for a person, filtered, and decided in place.

import { get } from "../api.js";
import { approvalCard, keyOf } from "../approvals.js";
import { make, put } from "../dom.js";
import { followThreads } from "../thread_feed.js";
import { button, empty, field, problem } from "../widgets.js";
import { count } from "../format.js";

const PAGE = 50;
const SETTLE = 250;
const CHOICES = { agent: ["Agent", "All agents"], tool: ["Tool", "All tools"], owner: ["User", "All users"] };

export async function approvals({ place, query, signal, go }) {
  const box = make("input", { type: "search", value: query.get("text") ?? "", placeholder: "Words in the call, its thread or its user" });
  const selects = Object.fromEntries(Object.keys(CHOICES).map((name) => [name, make("select", {})]));
  const status = make("p.quiet.small", { role: "status" });
  const list = make("div.stack", { role: "list", "aria-label": "Calls that wait" });
  const more = make("div.stack", {});
  const cards = new Map(); // by what a call is known by, so that what is half written stays
  const names = Object.fromEntries(Object.keys(CHOICES).map((name) => [name, new Set([query.get(name)].filter(Boolean))]));
  let next = null;
  let number = 0;

  const selection = () => ({ text: box.value.trim(), ...Object.fromEntries(Object.entries(selects).map(([name, select]) => [name, select.value])) });
  const isFiltered = () => Object.values(selection()).some(Boolean);

  function offer() {
    for (const [name, select] of Object.entries(selects)) {
      const value = select.options.length ? select.value : query.get(name) ?? "";
      if (select.options.length === names[name].size + 1) continue;
      put(select, make("option", { value: "" }, CHOICES[name][1]), [...names[name]].sort().map((each) => make("option", { value: each }, each)));
      select.value = value;
    }
  }

  /** Show these calls in their order; those that are there already are not drawn anew. */
  function draw(calls) {
    const keys = calls.map(keyOf);
    for (const [key, card] of cards) {
      if (!keys.includes(key)) { card.remove(); cards.delete(key); }
    }
    calls.forEach((waiting, index) => {
      const key = keys[index];
      if (!cards.has(key)) {
        const card = approvalCard(waiting, { decided: () => load().catch(() => {}), hasOrigin: true });
        cards.set(key, make("div", { role: "listitem" }, card));
      }
      if (list.children[index] !== cards.get(key)) list.insertBefore(cards.get(key), list.children[index] ?? null);
    });
  }

  function note(calls) {
    for (const each of calls) {
      names.agent.add(each.agent);
      names.tool.add(each.tool);
      if (each.user) names.owner.add(each.user);
    }
    offer();
  }

  function finish() {
    number = cards.size;
    list.hidden = number === 0;
    put(status, number ? `${count(number, "call")} ${number === 1 ? "waits" : "wait"} for a decision${next ? ", and more" : ""}` : "");
    if (number > 0) put(more, next && make("div.row", {}, button("button", "Show more", loadMore)));
    else put(more, isFiltered()
      ? empty("No such call waits", "Choose other filters, or none.", make("button", { type: "button", onclick: clear }, "Show all"))
      : empty("Nothing waits for you", "A call that needs a person’s approval appears here by itself."));
  }

  let shown = [];
  async function load() {
    const wanted = JSON.stringify(selection());
    const page = await get("/approvals", { limit: PAGE, first: true, ...selection() }, signal);
    if (wanted !== JSON.stringify(selection())) return;
    [shown, next] = [page.approvals, page.next];
    note(shown);
    draw(shown);
    finish();
  }

  async function loadMore() {
    const page = await get("/approvals", { limit: PAGE, first: true, ...selection(), cursor: next }, signal);
    shown = [...shown, ...page.approvals];
    next = page.next;
    note(page.approvals);
    draw(shown);
    finish();
  }

  let timer = 0;
  function soon() {
    clearTimeout(timer);
    timer = setTimeout(() => load().catch((error) => { if (!signal.aborted) put(more, problem(error)); }), SETTLE);
  }

  function changed() {
    const given = Object.entries(selection()).filter(([, value]) => value);
    go(`/studio/approvals${given.length ? `?${new URLSearchParams(given)}` : ""}`, null, { replace: true });
    soon();
  }

  function clear() {
    box.value = "";
    for (const select of Object.values(selects)) select.value = "";
    changed();
    box.focus();
  }

  box.addEventListener("input", changed);
  offer();
  for (const select of Object.values(selects)) select.addEventListener("change", changed);
  put(place, make("div.page", {}, make("h1", {}, "Approvals"),
    make("div.stack", {}, field("Search", box), make("div.filters", {}, Object.entries(selects).map(([name, select]) => field(CHOICES[name][0], select))), status),
    list, more));
  await load();
  followThreads({ hear: soon, look: soon, signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  return soon;
}
