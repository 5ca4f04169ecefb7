// The Studio: which page is shown, who is asking, light or dark.

import { become, get, who, WEB_USER } from "./api.js";
import { followConnection } from "./connection.js";
import { make, put } from "./dom.js";
import { extended } from "./extensions.js";
import { icon } from "./icons.js";
import { followInbox, nudgeInbox } from "./inbox.js";
import { ask, chip, empty, every, field, check, problem, tell, tick } from "./widgets.js";
import { at, HOME } from "./urls.js";
import { approvals } from "./pages/approvals.js";
import { experiments } from "./pages/experiments.js";
import { memory } from "./pages/memory.js";
import { search } from "./pages/search.js";
import { sessions } from "./pages/sessions.js";
import { system } from "./pages/system.js";
import { thread } from "./pages/thread.js";
import { threads } from "./pages/threads.js";
import { usage } from "./pages/usage.js";
import { workbench } from "./pages/workbench.js";

const TICK = 20_000;
const STORE_PAUSE = 3000;
const THEME = "clew-theme";
const THEMES = { system: "system", light: "light", dark: "dark" };
const PAGES = {
  threads: ["Threads", threads],
  approvals: ["Approvals", approvals],
  memory: ["Memory", memory],
  sessions: ["Sessions", sessions],
  search: ["Search", search],
  experiments: ["Experiments", experiments],
  usage: ["Usage", usage],
  system: ["System", system],
};

const OF_A_THREAD = {
  threads: (id) => [id, thread],
  workbench: (id) => [`Workbench of ${id}`, workbench],
};

const place = document.getElementById("main");
let leave = new AbortController();
let me = null;
let agent = null;
let refresh = null; // reads the page that is shown again; null if it has to be shown anew
let isTouched = false; // somebody has written into the page that is shown
const badge = make("span.badge", { hidden: true });

function here() {
  const parts = location.pathname.slice(HOME.length).split("/").filter(Boolean).map(decoded);
  return { name: parts[0] ?? "threads", id: parts[1] ?? null, query: new URLSearchParams(location.search) };
}

/** A part of the address; unchanged if it is no text. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Show the page of the address. */
async function show({ focus = true } = {}) {
  leave.abort();
  leave = new AbortController();
  const signal = leave.signal;
  const { name, id, query } = here();
  markNav(name === "workbench" ? "threads" : name);
  let [title, page] = pageOf(name, id);
  const body = make("div", {});
  put(place, body);
  place.setAttribute("aria-busy", "true");
  if (focus) place.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  refresh = null;
  isTouched = false;
  try {
    me ??= await get("/sessions/state", undefined, signal);
    agent ??= await known(signal);
    [title, page] = pageOf(name, id); // it may be a page of an agent
    markNav(name === "workbench" ? "threads" : name);
    showTools();
    refresh = (await page({ place: body, id, query, me, agent, signal, go, state: history.state ?? {} })) ?? null;
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 503) setTimeout(() => { if (!signal.aborted) show({ focus: false }); }, STORE_PAUSE);
    put(body, make("div.page", {}, make("h1", {}, title), problem(error), make("div.row", {}, error.status === 401 ? signIn() : tryAgain())));
  } finally {
    if (!signal.aborted) place.setAttribute("aria-busy", "false");
  }
}

/** The title and the function of a page, by the parts of its address. */
function pageOf(name, id) {
  const found = id !== null && OF_A_THREAD[name]?.(id) || PAGES[name] || ["Not found", missing];
  document.title = `${found[0]} · Clew Studio`;
  return found;
}

/** The agent that answers where none is named, with all that are `served`, once what agents add is loaded. */
async function known(signal) {
  const [answer, all] = await Promise.all([get("/agent", undefined, signal), get("/agents", undefined, signal)]);
  answer.served = all.agents.filter((each) => each.served);
  const added = await extended(answer.studio);
  Object.assign(PAGES, { ...added, ...PAGES }); // a page of the Studio's own stays
  buildNav();
  return answer;
}

function signIn() {
  return make("button.main", { type: "button", onclick: changeWho }, "Give a key");
}

function tryAgain() {
  return make("button", { type: "button", onclick: () => show() }, "Try again");
}

async function missing({ place: body }) {
  put(body, make("div.page", {}, make("h1", {}, "Not found"),
    empty("There is no such page", "Choose one of the pages, or go to the threads.", make("a.button", { href: "/studio/threads" }, "Threads"))));
}

/** Go to another page of the Studio. */
function go(where, state = null, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](state, "", at(where));
  if (!replace) show();
}

function markNav(name) {
  for (const each of document.querySelectorAll("#nav a")) {
    if (each.dataset.page === name) {
      each.setAttribute("aria-current", "page");
      each.parentElement.scrollLeft = each.offsetLeft - each.parentElement.clientWidth / 2 + each.offsetWidth / 2; // on a phone it may be out of sight
    }
    else each.removeAttribute("aria-current");
  }
}

function buildNav() {
  put(document.getElementById("nav"), Object.entries(PAGES).map(([name, [title]]) =>
    make("a", { href: `/studio/${name}`, "data-page": name }, icon(name), make("span", {}, title), name === "approvals" && badge)));
}

/** Say beside the inbox how many calls wait. */
function showWaitingCount(number, hasMore) {
  badge.hidden = number === 0;
  put(badge, `${number}${hasMore ? "+" : ""}`, make("span.hidden-label", {}, " waiting"));
}

// The connection. A page that could not be shown is shown when the server is back, and any other is read again.

function sayOffline() {
  put(document.getElementById("connection"), chip("Offline", "bad"), make("span.small", {}, "Trying again…"));
}

async function comeBack() {
  put(document.getElementById("connection"));
  nudgeInbox();
  if (refresh) await refresh();
  else if (!isTouched && !document.querySelector("dialog")) await show({ focus: false });
}

// Who is asking, and light or dark.

function showTools() {
  const asking = who();
  const name = me?.user ?? (asking.key ? "All of the tenant" : "Everybody");
  const said = `${name}|${theme()}`;
  const place = document.getElementById("tools");
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  put(place,
    make("button", { type: "button", title: "Who is asking", onclick: changeWho }, icon("person"), make("span", {}, name)),
    make("button", { type: "button", title: "Light or dark", onclick: nextTheme }, icon("theme"), make("span", {}, `Theme: ${THEMES[theme()]}`)));
}

async function changeWho() {
  const now = who();
  const user = make("input", { type: "text", value: now.user === WEB_USER ? "" : now.user, placeholder: WEB_USER, autocomplete: "off" });
  const only = make("input", { type: "checkbox" });
  only.checked = now.only;
  const key = make("input", { type: "password", value: now.key, autocomplete: "off" });
  const changed = await ask({
    title: "Who is asking",
    parts: [
      field("User", user, "Chats that you begin here are this user's."),
      check("Only this user’s threads", only, "Otherwise everything that the server lets you see."),
      field("API key or token", key, "Needed where the server asks for one. It is kept for this tab alone."),
    ],
    yes: "Use this",
    send: () => { become({ user: user.value.trim(), only: only.checked, key: key.value.trim() }); },
  });
  if (!changed) return;
  me = null;
  nudgeInbox();
  await show();
}

function theme() {
  const kept = localStorage.getItem(THEME);
  return kept in THEMES ? kept : "system";
}

function applyTheme() {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

function nextTheme() {
  const names = Object.keys(THEMES);
  localStorage.setItem(THEME, names[(names.indexOf(theme()) + 1) % names.length]);
  applyTheme();
  showTools();
  document.querySelector("#tools button:last-child").focus();
  tell(`Theme: ${THEMES[theme()]}.`);
}

/** The document names what it needs by the way up, which leads elsewhere once the address has changed. */
function standFast() {
  for (const each of document.querySelectorAll("link[rel=icon], a.brand")) each.href = `${each.href}`;
  for (const each of document.querySelectorAll("a.brand img")) each.src = `${each.src}`;
}

// Links inside the Studio change the page without loading it again.

document.addEventListener("click", (event) => {
  const found = event.target.closest?.("a[href]");
  if (!found || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(found.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(HOME) || found.hasAttribute("download") || found.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(url.pathname.slice(HOME.length - "/studio".length) + url.search);
});
place.addEventListener("input", () => { isTouched = true; });
window.addEventListener("popstate", () => show());
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});

applyTheme();
standFast();
buildNav();
showTools();
show({ focus: false });
every(TICK, tick);
followInbox(showWaitingCount);
followConnection({ lost: sayOffline, back: () => comeBack().catch(tell) });
