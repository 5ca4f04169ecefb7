// All threads: the newest first, searched by id, title and label; new ones appear by themselves.

import { get, WEB_USER, who } from "../api.js";
import { make, put } from "../dom.js";
import { draftsOf } from "../drafts.js";
import { icon } from "../icons.js";
import { followThreads } from "../thread_feed.js";
import { ask, button, check, chip, empty, field, link, problem, threadAt, time } from "../widgets.js";
import { count, webId } from "../format.js";

const PAGE = 30;
const TYPING = 250;

export async function threads({ place, query, signal, go, me, agent }) {
  const box = make("input", { type: "search", value: query.get("q") ?? "", placeholder: "Id, title or label", "aria-label": "Search threads" });
  const list = make("ul.list.threads", { "aria-label": "Threads" });
  const more = make("div.row", {});
  const status = make("p.quiet.small", { role: "status" });
  let rows = []; // in the order of the list
  let next = null;
  put(place, make("div.page", {},
    make("div.row.apart", {}, make("h1", {}, "Threads"), make("button.main", { type: "button", onclick: () => newChat(go, me, agent) }, icon("plus"), "New chat")),
    unsent(draftsOf(me.user ?? who().user)), make("div.stack", {}, box, status), list, more));

  const searched = () => box.value.trim();

  async function load() {
    const words = searched();
    const page = await get("/threads", { limit: PAGE, last: true, search: words }, signal);
    if (words !== searched()) return;
    rows = [];
    put(list);
    page.threads.forEach((each) => show(each));
    next = page.next;
    finish();
  }

  async function loadMore() {
    const page = await get("/threads", { limit: PAGE, last: true, search: searched(), cursor: next }, signal);
    page.threads.forEach((each) => show(each));
    next = page.next;
    finish();
  }

  /** Put a thread where it belongs, if it is not there already as it is now. */
  function show(found, isNew = false) {
    const before = rows.find((each) => each.found.id === found.id);
    if (before && !isNews(found, before.found)) return;
    const focused = before?.element.contains(document.activeElement);
    if (before) drop(before);
    const made = row(found, (label) => { box.value = label; changed(); });
    if (isNew && !before) made.element.classList.add("new");
    const older = rows.findIndex((each) => isBehind(each.found, found));
    list.insertBefore(made.element, rows[older]?.element ?? null);
    rows.splice(older < 0 ? rows.length : older, 0, made);
    if (focused) made.element.querySelector("a").focus();
  }

  function drop(known) {
    known.element.remove();
    rows = rows.filter((each) => each !== known);
  }

  async function look() {
    const words = searched();
    let page;
    try {
      page = await get("/threads", { limit: PAGE, last: true, search: words }, signal);
    } catch (error) {
      if (!signal.aborted) put(status, error.message);
      return;
    }
    if (words !== searched()) return;
    const there = new Set(page.threads.map((each) => each.id));
    const oldest = page.next ? page.threads.at(-1) : null;
    for (const each of rows) {
      if (!there.has(each.found.id) && !(oldest && isBehind(each.found, oldest))) drop(each);
    }
    page.threads.forEach((each) => show(each, true));
    finish();
  }

  let isReconnected = false;

  /** Whether this is all there was when the telling began. */
  function isWhole(newest, number) {
    if (searched() || newest !== Math.max(0, ...rows.map((each) => each.found.updated))) return false;
    return next !== null || number === rows.length;
  }

  function hear({ type, id, data }) {
    if (type === "listening") {
      if (isReconnected || !isWhole(Number(id), data.threads)) look(); // read what happened while there was no feed
      isReconnected = true;
      return;
    }
    const known = rows.find((each) => each.found.id === data.id);
    const isBeyond = next && rows.length > 0 && isBehind(data, rows.at(-1).found);
    if (type === "thread" && bears(data, searched())) {
      if (!isBeyond) show(data, true);
    } else if (known) {
      drop(known);
    }
    finish();
  }

  function finish() {
    list.hidden = rows.length === 0;
    const said = rows.length === 0 ? "" : `${count(rows.length, "thread")}${next ? ", and more" : ""}${searched() ? ` for “${searched()}”` : ""}`;
    if (status.textContent !== said) put(status, said);
    const kind = rows.length > 0 ? String(next !== null) : `nothing ${searched()}`;
    if (more.dataset.kind === kind) return; // what has the focus stays
    more.dataset.kind = kind;
    more.classList.toggle("row", rows.length > 0);
    put(more, rows.length === 0 ? nothing(searched(), () => newChat(go, me, agent)) : next !== null && button("button", "Show more", loadMore));
  }

  let typing = 0;
  function changed() {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const words = searched();
      go(`/studio/threads${words ? `?q=${encodeURIComponent(words)}` : ""}`, null, { replace: true });
      load().catch((error) => {
        if (signal.aborted) return;
        delete more.dataset.kind;
        put(more, problem(error));
      });
    }, TYPING);
  }
  box.addEventListener("input", changed);

  await load();
  if (query.has("new")) {
    go("/studio/threads", null, { replace: true });
    newChat(go, me, agent);
  }
  followThreads({ hear, look, signal });
  signal.addEventListener("abort", () => clearTimeout(typing));
  return look;
}

/** Messages that were written and not sent, each with the way to its chat. */
function unsent(drafts) {
  return drafts.length > 0 && make("section.stack.tight", { "aria-label": "Not sent yet" }, make("h2.minor", {}, "Not sent yet"),
    make("ul.list", {}, drafts.map((draft) => make("li.row.near", {},
      link(threadAt(draft.thread), draft.thread), make("span.cut.grow.quiet", { dir: "auto" }, draft.text), make("span.small.quiet", {}, time(draft.time))))));
}

function nothing(words, begin) {
  if (words) return empty("Nothing bears these words", "Look for a part of an id, a title or a label. What was said is found on the page Search.");
  return empty("No threads yet", "Begin a chat here, or let your agent write one: it appears by itself.",
    make("button", { type: "button", onclick: begin }, "Begin a chat"));
}

function row(found, filter) {
  const labels = found.labels.map((label) => make("button.chip.accent.above", { type: "button", title: `Threads labelled ${label}`, onclick: () => filter(label) }, label));
  const element = make("li", {},
    make("div.row.apart.near", {},
      make("a.title.cut.grow", { href: threadAt(found.id) }, found.title ?? found.first ?? found.id),
      make("span.small.quiet", {}, time(found.updated))),
    make("p.cut.quiet", {}, found.last ?? "Nothing was said yet"),
    make("div.row.near.small.quiet", {},
      (found.title ?? found.first) && make("span.mono.cut", {}, found.id),
      make("span", {}, `${found.owner ?? "nobody’s"} · version ${found.version} · ${count(found.items, "item")}`),
      found.parent && chip(`fork of ${found.parent.thread}`, "", "fork"),
      labels));
  return { element, found };
}

/** Whether a thread has gone on, or was made anew, since it was seen. */
function isNews(found, seen) {
  return found.created !== seen.created || found.version > seen.version;
}

/** True if one thread comes after another: the newest come first. */
function isBehind(one, other) {
  return one.created < other.created || (one.created === other.created && one.id < other.id);
}

/** Whether a thread bears the words that are looked for. */
function bears(found, words) {
  return [found.id, found.title ?? "", ...found.labels].some((each) => each.toLowerCase().includes(words.toLowerCase()));
}

/** Ask how a chat is to begin, and go there. */
async function newChat(go, me, agent) {
  const id = make("input", { type: "text", placeholder: "web-…", autocomplete: "off" });
  const user = make("input", { type: "text", placeholder: WEB_USER, value: who().user === WEB_USER ? "" : who().user, autocomplete: "off" });
  const veil = make("input", { type: "checkbox" });
  const about = make("p.notice.veil", { hidden: true }, "Incognito: nothing is written down. The chat lives in the server’s memory, belongs to nobody, and is gone when you leave this page.");
  let before = user.value;
  veil.addEventListener("change", () => {
    if (veil.checked) before = user.value;
    user.value = veil.checked ? "" : before;
    user.disabled = veil.checked;
    user.placeholder = veil.checked ? "nobody" : WEB_USER;
    about.hidden = !veil.checked;
  });
  const chosen = await ask({
    title: "New chat",
    parts: [
      field("Thread", id, "Leave it empty for a new id."),
      me.user === null ? field("User", user, "Whose chat it is.") : null,
      agent.incognito && check("Incognito", veil, "Leave no trace. It is chosen here, and stays so until the chat ends."),
      about,
    ],
    yes: "Begin",
    send: async () => {
      const named = id.value.trim();
      const fresh = !named || veil.checked || !(await isThere(named));
      return { id: named || webId(), state: { fresh, user: user.value.trim() || WEB_USER, incognito: veil.checked } };
    },
  });
  if (chosen) go(threadAt(chosen.id), chosen.state); // once the dialog is closed, so that it takes no focus away
}

/** Whether there may be a thread of an id. */
async function isThere(id) {
  const page = await get("/threads", { search: id, limit: 200 });
  return page.next !== null || page.threads.some((each) => each.id === id);
}
