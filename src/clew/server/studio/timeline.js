// The timeline: go through the versions of a thread, see what each changed, fork or rewind there.

import { get, path, post } from "./api.js";
import { freshId, make, put } from "./dom.js";
import { icon } from "./icons.js";
import { ask, button, chip, facts, field, link, problem, tell, threadAt, time, toggle } from "./widgets.js";
import { count, localDay, shown, webId } from "./format.js";

const SETTLE = 120;
const MESSAGES = 200;
const DIAGNOSTICS = "diagnostics"; // the part of a state that agents keep for those who repair them
const SHOWS_DIAGNOSTICS = "clew-diagnostics";
const VERBS = { set: "set", delete: "removed", append: "appended", insert: "inserted", remove: "removed", increment: "added", merge: "merged", union: "joined", max: "raised", min: "lowered" };

/** The panel that goes through versions; `look(version)` is called with the version, or null for the newest; `log()` says which log. */
export class Timeline {
  constructor({ id, go, signal, log, look, rewound }) {
    Object.assign(this, { id, go, signal, log, look, rewound, newest: 0, at: 0, timer: 0 });
    this.range = make("input", { type: "range", min: 0, max: 0, step: 1, id: freshId("range") });
    this.label = make("label.label", { for: this.range.id });
    this.range.addEventListener("input", () => this.moved(Number(this.range.value)));
    this.against = make("select", { "aria-label": "Compare with" },
      make("option", { value: "before" }, "with the version before"), make("option", { value: "now" }, "with now"));
    this.against.addEventListener("change", () => this.show());
    this.diagnostics = toggle("Diagnostics", localStorage.getItem(SHOWS_DIAGNOSTICS) === "on", (on) => {
      localStorage.setItem(SHOWS_DIAGNOSTICS, on ? "on" : "off");
      this.soon(); // once the switch says so
    });
    this.changes = make("div.stack", {});
    this.state = make("pre.small", {});
    this.element = make("div.stack", {}, this.controls(), this.changes,
      make("details", {}, make("summary", {}, "The whole state at this version"), this.state));
  }

  controls() {
    const step = (name, by, drawing) => make("button.icon", {
      type: "button", "aria-label": name, title: name,
      onclick: () => this.moved(Math.min(Math.max(this.at + by, 0), this.newest)),
    }, icon(drawing));
    this.earlier = step("The version before", -1, "back");
    this.later = step("The version after", 1, "next");
    this.rewinder = make("button.small.bad", { type: "button", onclick: () => this.rewind().catch(tell) }, icon("rewind"), "Rewind to here");
    return make("div.stack", {},
      make("div.row.apart.near", {}, this.label, make("div.row.near", {}, this.earlier, this.later)),
      this.range,
      make("div.row.near", {}, button("button.small", [icon("fork"), "Fork from here"], () => this.fork()), this.rewinder),
      make("div.row.apart.foot-line", {}, field("Day", this.dayField()), this.diagnostics),
      make("div.row.near.small", {}, "Compare ", this.against));
  }

  /** A field that goes to the last version of a day, and says the day of the version that is shown. */
  dayField() {
    this.day = make("input", { type: "date" });
    this.day.addEventListener("change", () => {
      if (!this.day.value) return;
      const [year, month, day] = this.day.value.split("-").map(Number);
      this.versionBefore(new Date(year, month - 1, day + 1).getTime()).then((version) => this.moved(version)).catch(tell);
    });
    return this.day;
  }

  /** The last version before a moment; the first one if there was none yet. */
  async versionBefore(moment) {
    let [low, high] = [Math.min(1, this.newest), this.newest];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      const change = await this.changeset(middle);
      if (change && change.time < moment) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  async changeset(version) {
    if (version === 0) return null;
    const page = await get(path`/threads/${this.id}/changesets`, { after: version - 1, limit: 1 }, this.signal);
    return page.changesets[0] ?? null;
  }

  get showsDiagnostics() {
    return this.diagnostics.getAttribute("aria-checked") === "true";
  }

  /** The thread is at this version now. */
  grow(newest) {
    const wasNow = this.at === this.newest;
    this.newest = newest;
    this.range.max = newest;
    if (wasNow) this.at = newest;
    this.range.value = this.at;
    this.name();
    if (wasNow) this.soon();
  }

  name() {
    const now = this.at === this.newest ? ", which is now" : "";
    put(this.label, `Version ${this.at} of ${this.newest}${now}`);
    this.range.setAttribute("aria-valuetext", `version ${this.at} of ${this.newest}`);
    disable(this.earlier, this.at === 0);
    disable(this.later, this.at === this.newest);
    disable(this.rewinder, this.at === this.newest);
  }

  /** Be at the newest version again, whose messages are shown already. */
  present() {
    this.at = this.newest;
    this.grow(this.newest);
  }

  /** Go to a version. */
  moved(at) {
    this.at = at;
    this.range.value = at;
    this.name();
    this.soon(() => this.look(at === this.newest ? null : at));
  }

  soon(then = () => {}) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { then(); this.show(); }, SETTLE);
  }

  async show() {
    const at = this.at;
    const [before, after] = this.against.value === "now" ? [at, this.newest] : [Math.max(at - 1, 0), at];
    try {
      const [diff, state, change] = await Promise.all([
        this.difference(before, after),
        get(path`/threads/${this.id}/state`, { at }, this.signal),
        this.changeset(at),
      ]);
      if (at !== this.at) return;
      if (change) this.day.value = localDay(change.time);
      put(this.state, shown(this.showsDiagnostics ? state.state : withoutDiagnostics(state.state)));
      put(this.changes, about(change), differences(diff, this.showsDiagnostics));
    } catch (error) {
      if (!this.signal.aborted) put(this.changes, problem(error));
    }
  }

  /** What differs between two versions, with what its items say, whatever framework wrote them. */
  async difference(before, after) {
    const log = this.log();
    const diff = await get(path`/threads/${this.id}/diff`, { before, after, log }, this.signal);
    const [added, removed] = await Promise.all([this.said(diff.added, after, log), this.said(diff.removed, before, log)]);
    return { ops: diff.ops, added, removed };
  }

  /** What items say, and how many more of them there are. */
  async said(items, at, log) {
    if (items.length === 0) return { messages: [], more: 0 };
    const page = await get(path`/threads/${this.id}/messages`, { at, log, limit: MESSAGES }, this.signal);
    const places = new Set(items.map((item) => item.place));
    const messages = page.messages.filter((message) => places.has(message.place));
    return { messages, more: places.size - new Set(messages.map((message) => message.place)).size };
  }

  async fork() {
    const id = make("input", { type: "text", placeholder: "web-…", autocomplete: "off" });
    const made = await ask({
      title: `Fork from version ${this.at}`,
      parts: [make("p", {}, "A new thread that has everything up to this version and goes its own way. This one stays as it is."), field("The new thread", id, "Leave it empty for a new id.")],
      yes: "Fork",
      send: () => post(path`/threads/${this.id}/fork`, { id: id.value.trim() || webId(), at: this.at }),
    });
    if (made) this.go(threadAt(made.id));
  }

  async rewind() {
    if (this.at === this.newest) return; // there is nothing behind it
    const done = await ask({
      title: `Rewind to version ${this.at}?`,
      parts: [
        make("p", {}, `What came after version ${this.at} no longer counts: ${count(this.newest - this.at, "version")}. It stays in the log, and the rewind is a change like any other.`),
        make("p.quiet", {}, "Mails that were sent and money that was moved do not come back."),
      ],
      yes: "Rewind",
      bad: true,
      send: () => post(path`/threads/${this.id}/rewind`, { to: this.at }),
    });
    if (!done) return;
    tell(`Rewound: ${count(done.ended, "item")} taken back${done.effects.length ? `, ${count(done.effects.length, "effect")} on the world not` : ""}.`);
    this.at = this.newest;
    await this.rewound();
  }
}

/** Say that a button does nothing here. It keeps the focus, so that the keyboard goes on from where it is. */
function disable(made, isOff) {
  made.setAttribute("aria-disabled", String(isOff));
}

function about(change) {
  if (!change) return make("p.quiet.small", {}, "Before the first change the thread was empty.");
  return facts([
    ["Change", change.reason],
    ["When", time(change.time)],
    ["By", change.author],
    ["Run", change.run_id && make("span.mono", {}, change.run_id)],
    ["Hash", make("span.mono", {}, change.hash.slice(0, 16))],
  ]);
}

/** Whether a part of the state is about how the agent works, and not about what it does for people. */
function isDiagnostic(name) {
  return name === DIAGNOSTICS || name.startsWith("$");
}

function withoutDiagnostics(state) {
  return Object.fromEntries(Object.entries(state).filter(([name]) => !isDiagnostic(name)));
}

function differences(diff, showsDiagnostics) {
  const ops = diff.ops.filter((op) => showsDiagnostics || !isDiagnostic(String(op[1]?.[0] ?? "")));
  const own = diff.ops.length - ops.length;
  const [came, went] = [entries("+", diff.added, "added"), entries("−", diff.removed, "removed")];
  return [
    make("h2.minor", {}, "Messages"),
    came.length + went.length
      ? make("ul.ops", {}, came, went)
      : make("p.quiet.small", {}, "No message came or went."),
    make("h2.minor", {}, "State"),
    ops.length > 0 && make("ul.ops", {}, ops.map(operation)),
    own > 0 && make("p.quiet.small", {}, `${count(own, "change")} of diagnostics ${own === 1 ? "is" : "are"} not shown.`),
    ops.length + own === 0 && make("p.quiet.small", {}, "The state did not change."),
  ];
}

function entries(sign, { messages, more }, kind) {
  const all = messages.map((message) => entry(sign, `${message.role}: ${saidIn(message)}`, kind));
  return more ? [...all, entry(sign, count(more, "more item"), kind)] : all;
}

function saidIn(message) {
  return [
    message.text,
    ...message.calls.map((call) => `calls ${call.name} ${shown(call.arguments ?? {})}`),
    ...message.results.map((result) => `result of ${result.name || result.id}: ${shown(result.output ?? "nothing")}`),
  ].filter(Boolean).join("\n");
}

function entry(sign, said, kind) {
  return make(`li.${kind}`, {},
    make("span.mono", {}, make("span.hidden-label", {}, `${kind} `), make("span", { "aria-hidden": "true" }, sign)), make("pre", {}, said));
}

function operation([verb, where, ...values]) {
  return make("li.state", {}, make("span.mono", {}, (where ?? []).join(".")), make("pre", {}, `${VERBS[verb] ?? verb} ${values.map(shown).join(", ")}`));
}

/** A line for a version that is looked at, with the way back. */
export function lookingBack(at, newest, back) {
  return make("div.row.apart.near.notice.warn", { role: "status" },
    make("span.grow", {}, `You are looking at version ${at} of ${newest}.`, " It can be read, not written."), make("button.small", { type: "button", onclick: back }, "Back to now"));
}

/** Whether the hash chain holds, as a small badge with details behind it. */
export function chainBadge(verdict, open) {
  const [said, kind] = verdict.ok ? ["Chain holds", "good"] : ["Chain is broken", "bad"];
  return make(`button.chip.${kind}`, { type: "button", onclick: open, title: "Details of the hash chain" }, icon("chain"), said);
}

/** What a verification found. */
export function chainDetails(verdict) {
  return [
    make("p", {}, verdict.ok ? "Every change carries the hash of the one before it, and all of them were computed again just now. Nothing was altered." : "What is stored is not what was written."),
    facts([
      ["Version", String(verdict.version)],
      ["Hash", make("span.mono", {}, verdict.hash)],
      ["Problems", verdict.problems.join("; ") || "none"],
      ["Erased", verdict.erased.length ? verdict.erased.join(", ") : "nothing"],
    ]),
    verdict.problems.length > 0 && chip("Make a backup before anything else", "bad"),
    link("/studio/system", "Health of the server"),
  ];
}
