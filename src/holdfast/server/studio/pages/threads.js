// All threads: the newest first, searched by id, title and label; new ones appear by themselves.

import { get, WEB_USER, who } from "../api.js";
import { make, put } from "../dom.js";
import { icon } from "../icons.js";
import { ask, button, check, chip, empty, every, field, problem, threadAt, time } from "../parts.js";
import { count, webId } from "../words.js";

const PAGE = 30;
const LOOK_AGAIN = 2500;
const TYPING = 250;

export async function threads({ place, query, signal, go, me, agent }) {
  const box = make("input", { type: "search", value: query.get("q") ?? "", placeholder: "Id, title or label", "aria-label": "Search threads" });
  const list = make("ul.list.threads", { "aria-label": "Threads" });
  const more = make("div.row", {});
  const status = make("p.quiet.small", { role: "status" });
  const rows = new Map();
  let next = null;
  put(place, make("div.page", {},
    make("div.row.apart", {}, make("h1", {}, "Threads"), make("button.main", { type: "button", onclick: () => newChat(go, me, agent) }, icon("plus"), "New chat")),
    make("div.stack", {}, box, status), list, more));

  const searched = () => box.value.trim();

  async function load() {
    const words = searched();
    const page = await get("/threads", { limit: PAGE, last: true, search: words }, signal);
    if (words !== searched()) return;
    rows.clear();
    put(list);
    page.threads.forEach((each) => show(each, false));
    next = page.next;
    finish();
  }

  async function loadMore() {
    const page = await get("/threads", { limit: PAGE, last: true, search: searched(), cursor: next }, signal);
    page.threads.forEach((each) => show(each, false));
    next = page.next;
    finish();
  }

  function show(found, isNew) {
    const before = rows.get(found.id);
    if (before?.version === found.version) {
      before.refresh();
      return;
    }
    const made = row(found, (label) => { box.value = label; changed(); });
    if (isNew && !before) made.element.classList.add("new");
    if (before) before.element.replaceWith(made.element);
    else if (isNew) list.prepend(made.element);
    else list.append(made.element);
    rows.set(found.id, made);
  }

  async function refresh() {
    const words = searched();
    let page;
    try {
      page = await get("/threads", { limit: PAGE, last: true, search: words }, signal);
    } catch (error) {
      if (!signal.aborted) put(status, error.message);
      return;
    }
    if (words !== searched()) return;
    [...page.threads].reverse().forEach((each) => show(each, true));
    if (!next) dropMissing(page);
    finish();
  }

  function dropMissing(page) {
    const there = new Set(page.threads.map((each) => each.id));
    if (page.next) return;
    for (const [id, each] of rows) {
      if (!there.has(id)) { each.element.remove(); rows.delete(id); }
    }
  }

  function finish() {
    list.hidden = rows.size === 0;
    put(status, rows.size === 0 ? "" : `${count(rows.size, "thread")}${next ? ", and more" : ""}${searched() ? ` for “${searched()}”` : ""}`);
    if (rows.size === 0) put(more, nothing(searched(), () => newChat(go, me, agent)));
    else put(more, next && button("button", "Show more", loadMore));
    more.firstElementChild?.classList.contains("empty") ? more.classList.remove("row") : more.classList.add("row");
  }

  let typing = 0;
  function changed() {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const words = searched();
      go(`/studio/threads${words ? `?q=${encodeURIComponent(words)}` : ""}`, null, { replace: true });
      load().catch((error) => signal.aborted || put(more, problem(error)));
    }, TYPING);
  }
  box.addEventListener("input", changed);

  await load();
  if (query.has("new")) {
    go("/studio/threads", null, { replace: true });
    newChat(go, me, agent);
  }
  const stop = every(LOOK_AGAIN, refresh);
  signal.addEventListener("abort", () => { stop(); clearTimeout(typing); });
}

function nothing(words, begin) {
  if (words) return empty("Nothing bears these words", "Look for a part of an id, a title or a label. What was said is found on the page Search.");
  return empty("No threads yet", "Begin a chat here, or let your agent write one: it appears by itself.",
    make("button", { type: "button", onclick: begin }, "Begin a chat"));
}

function row(found, filter) {
  const when = make("span", {}, time(found.updated));
  const labels = found.labels.map((label) => make("button.chip.accent.above", { type: "button", title: `Threads labelled ${label}`, onclick: () => filter(label) }, label));
  const element = make("li", {},
    make("div.row.apart.near", {},
      make("a.title.cut.grow", { href: threadAt(found.id) }, found.title ?? found.id),
      make("span.small.quiet", {}, when)),
    make("p.cut.quiet", {}, found.last ?? "Nothing was said yet"),
    make("div.row.near.small.quiet", {},
      found.title && make("span.mono.cut", {}, found.id),
      make("span", {}, found.owner ?? "nobody’s"),
      make("span", {}, `version ${found.version}`),
      make("span", {}, count(found.items, "item")),
      found.parent && chip(`fork of ${found.parent.thread}`, "", "fork"),
      labels));
  return { element, version: found.version, refresh: () => put(when, time(found.updated)) };
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
