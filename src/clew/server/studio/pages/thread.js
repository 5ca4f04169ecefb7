// One thread: the conversation, its timeline, its runs, and what it is.

import { get, path, request, text, who } from "../api.js";
import { showWaiting } from "../approvals.js";
import { Chat, NO_MODEL } from "../chat.js";
import { Draft } from "../drafts.js";
import { freshId, make, put } from "../dom.js";
import { icon } from "../icons.js";
import { nudgeInbox } from "../inbox.js";
import { button, chip, empty, facts, link, problem, show, tabs, tell, threadAt, time, workbenchAt } from "../widgets.js";
import { stepsOf } from "../steps.js";
import { Conversation } from "../conversation.js";
import { chainBadge, chainDetails, lookingBack, Timeline } from "../timeline.js";
import { formatName } from "../transcript.js";
import { cost, count, lasting } from "../format.js";

export async function thread(context) {
  const { place, id, state, go } = context;
  if (state.left) {
    put(place, make("div.page", {}, make("h1", {}, "Incognito chat"),
      empty("This chat is gone", "It was incognito, and nothing of it was kept.", link("/studio/threads", "To the threads", { class: "button" }))));
    return;
  }
  const detail = state.fresh ? null : await found(id, context.signal);
  if (state.incognito) history.replaceState({ left: true }, "");
  const page = new Page(context, detail);
  await page.open(go);
  return () => page.comeBack();
}

async function found(id, signal) {
  try {
    return await get(path`/threads/${id}`, { first: true }, signal);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

class Page {
  constructor({ place, id, query, me, agent, signal, state, go }, detail) {
    Object.assign(this, { place, id, me, agent, signal, state, go, detail, query });
    this.incognito = state.incognito === true;
    this.badges = make("div.row.near", {});
    this.notice = make("div", {});
    this.panel = make("div.panel", { role: "tabpanel", id: freshId("panel"), tabindex: "0" });
    this.conversation = new Conversation({
      id, turn: this.turn(), closed: this.closed(), signal, changed: (event) => this.heard(event), command: (text) => this.chatting?.command(text) ?? false, call: () => this.chatting?.call().catch(tell),
      draft: this.incognito ? null : new Draft(this.me.user ?? who().user, id),
      present: () => { this.conversation.showPast(null); this.timeline.present(); },
    });
    this.chatting = this.conversation.turn ? this.withCommands() : null;
    this.timeline = new Timeline({ id, go, signal, log: () => this.conversation.log, look: (at) => this.look(at), rewound: () => this.reload() });
  }

  /** On whose behalf one writes here; null if one cannot. */
  turn() {
    if (this.incognito) return { incognito: true };
    if (this.isOfAnotherAgent()) return null;
    if (this.detail?.owner === null) return this.detail.agent ? {} : null; // in nobody's name, as it began
    const user = this.detail?.owner ?? this.state.user ?? who().user;
    return this.me.user === null ? { user } : { user: this.me.user };
  }

  /** The model of the agent that answers on this thread. */
  model() {
    return (this.agent.served.find((each) => each.name === this.detail?.agent) ?? this.agent).model;
  }

  isOfAnotherAgent() {
    return Boolean(this.detail?.agent) && !this.agent.served.some((each) => each.name === this.detail.agent);
  }

  withCommands() {
    const { id, go, incognito, signal } = this;
    const page = { id, go, incognito, signal, user: this.conversation.turn.user ?? null, save: () => this.save(), reload: () => this.reload() };
    return new Chat(this.conversation, this.agent, page);
  }

  closed() {
    if (this.isOfAnotherAgent()) return `The agent ${this.detail.agent} writes this thread. Read it here, and go on where that agent is served.`;
    return "This thread belongs to nobody: a program writes it. Read it here, and go on in the program.";
  }

  async open() {
    this.build();
    if (this.conversation.turn) this.conversation.takeUpDraft();
    if (this.incognito) this.leaveNoTrace();
    if (!this.detail) {
      put(this.conversation.tail, make("p.quiet", {}, this.beginning()));
      this.conversation.box?.focus();
      this.showHead();
      await this.chatting?.open();
      return;
    }
    this.chooseLog();
    await this.conversation.load();
    if (this.conversation.foreign) this.chatting = null;
    if (this.conversation.foreign) this.conversation.close(`${formatName(this.conversation.foreign)} writes this thread. Read it here, and go on there.`);
    this.timeline.grow(this.detail.version);
    this.showHead();
    this.fillPanel("timeline");
    const at = Number(this.query.get("at"));
    if (at > 0 && at < this.detail.version) this.timeline.moved(at);
    this.conversation.watch();
    await this.showWaiting();
  }

  beginning() {
    if (this.incognito) return "Nothing is written down. Say something.";
    if (this.state.fresh) return "A new thread. It begins with your first message.";
    return "There is no thread of this id that you may see. Your first message begins one.";
  }

  build() {
    const names = { timeline: "Timeline", runs: "Runs", about: "About" };
    this.wide = tabs("About this thread", names, "timeline", (key) => this.choose(key), this.panel.id);
    this.narrow = tabs("Parts of this thread", { chat: "Chat", ...names }, "chat", (key) => this.choose(key), this.panel.id);
    this.narrow.element.classList.add("only-narrow");
    this.title = make("h1.cut", {});
    this.showTitle();
    this.root = make("div.thread", { "data-showing": "chat" },
      make("header", {}, make("div.row.apart.near", {}, this.title, this.badges), this.notice),
      this.narrow.element, this.conversation.element,
      make("aside.side", { "aria-label": "Timeline, runs and more" }, this.wide.element, this.panel));
    put(this.panel, make("p.quiet", {}, this.incognito ? "An incognito chat has no timeline: nothing of it is kept." : "There is a timeline once something was said."));
    put(this.place, this.root);
  }

  /** The title of the thread, or else its first message in a line, or else its id. */
  showTitle() {
    const name = this.detail?.title ?? this.detail?.first ?? this.id;
    put(this.title, name);
    document.title = `${name} · Clew Studio`;
  }

  chooseLog() {
    const { logs } = this.detail;
    const names = Object.keys(logs).filter((name) => logs[name] > 0);
    if (names.length === 0 || "history" in logs && names.length === 1) return;
    this.conversation.log = logs.history ? "history" : names[0];
    const choice = make("select", { "aria-label": "Which log" }, names.map((name) => make("option", { value: name }, `${name} (${logs[name]})`)));
    choice.value = this.conversation.log;
    choice.addEventListener("change", () => {
      this.conversation.log = choice.value;
      this.conversation.load(this.conversation.at).catch(tell);
      this.timeline.show();
    });
    this.logChoice = names.length > 1 ? choice : null;
  }

  showHead() {
    const { detail } = this;
    put(this.badges,
      this.incognito && chip("Incognito", "veil", "veil"),
      chip(this.incognito ? "nobody" : detail ? detail.owner ?? "nobody’s" : this.turn().user, "", "person"),
      this.isOfAnotherAgent() && chip(`${detail.agent}, read only`, "warn"),
      detail && make("span.only-wide", {}, chip(`version ${detail.version}`)),
      this.logChoice,
      this.badge ??= make("span", {}, detail && chip("Checking…", "", "chain")),
      this.chatting && this.model() === NO_MODEL && chip("no model", "warn"),
      detail && link(workbenchAt(this.id), "Workbench", { class: "chip accent" }),
      detail && this.exporter("button.small.only-wide"),
      this.chatting && (detail || this.conversation.mark !== null) && button("button.small", "End session", () => this.chatting.do_end([])));
    if (detail) this.verify();
    if (this.incognito) put(this.notice, make("p.notice.veil", {}, "Incognito: nothing is written down, and it is gone when you leave this page."));
  }

  async verify() {
    const verdict = await get(path`/threads/${this.id}/verify`, undefined, this.signal).catch(() => null);
    if (!this.signal.aborted) put(this.badge, verdict && chainBadge(verdict, () => show("Hash chain", ...chainDetails(verdict))));
  }

  choose(key) {
    this.root.dataset.showing = key;
    this.narrow.choose(key, true);
    if (key !== "chat") this.fillPanel(key);
  }

  fillPanel(key) {
    this.showing = key;
    this.wide.choose(key, true);
    this.panel.setAttribute("aria-labelledby", this.wide.tab(key).id);
    if (!this.detail) return;
    if (key === "timeline") put(this.panel, this.timeline.element);
    else if (key === "runs") this.showRuns().catch((error) => put(this.panel, problem(error)));
    else put(this.panel, this.about());
  }

  async look(at) {
    this.conversation.showPast(at !== null ? lookingBack(at, this.timeline.newest, () => this.timeline.moved(this.timeline.newest)) : null);
    await this.conversation.load(at).catch((error) => this.conversation.say(error));
  }

  heard(event) {
    if (this.incognito && event.type === "settled") this.showHead();
    if (this.incognito) return;
    if (event.type === "run_finished") nudgeInbox();
    if (event.type === "settled" || event.type === "run_finished") this.refresh().catch(tell);
  }

  /** Read the status of the thread again. */
  async refresh() {
    const before = this.detail;
    this.detail = await get(path`/threads/${this.id}`, { first: true }, this.signal);
    this.showTitle();
    if (!before) {
      history.replaceState({}, "");
      this.fillPanel(this.showing ?? "timeline");
    }
    this.timeline.grow(this.detail.version);
    if (before?.version !== this.detail.version) this.showHead();
    if (this.showing === "runs") await this.showRuns();
    await this.showWaiting();
  }

  /** Read again what may have changed while there was no server. The conversation has taken up its stream itself. */
  async comeBack() {
    if (!this.detail) return;
    await this.refresh();
    await this.timeline.show();
  }

  async reload() {
    this.conversation.showPast(null);
    await this.conversation.load();
    if (this.incognito) this.showHead();
    else await this.refresh();
  }

  async showWaiting() {
    const waiting = await showWaiting(this.conversation.decisions, this.id, () => this.refresh().catch(tell), this.signal);
    if (waiting && this.conversation.stuck) this.conversation.scrollDown();
  }

  async showRuns() {
    const page = await get("/runs", { thread: this.id, limit: 30 }, this.signal);
    const total = page.runs.reduce((sum, run) => sum + run.usage.cost, 0);
    put(this.panel, page.runs.length === 0
      ? make("p.quiet", {}, "No run yet. What a framework writes by itself is no run of this server.")
      : [make("p.small.quiet", {}, `${count(page.runs.length, "run")}${page.next ? " and more" : ""}, ${cost(total)} in all`), make("ul.stack", {}, page.runs.map((run) => runCard(run, this.signal)))]);
  }

  about() {
    const { detail } = this;
    return [
      facts([
        ["Id", make("span.mono", {}, detail.id)],
        ["Owner", detail.owner ?? "nobody"],
        ["Agent", detail.agent ?? "none yet"],
        ["Title", detail.title],
        ["Labels", detail.labels.join(", ")],
        ["Created", time(detail.created)],
        ["Changed", time(detail.updated)],
        ["Fork of", detail.parent && link(threadAt(detail.parent.thread, detail.parent.version), `${detail.parent.thread}, version ${detail.parent.version}`)],
        ["Logs", Object.entries(detail.logs).map(([name, size]) => `${name} (${size})`).join(", ")],
        ["Open calls", detail.open_calls.join(", ")],
        ["Hash", make("span.mono", {}, detail.hash)],
      ]),
      make("div.row", {}, this.exporter("button")),
      make("p.quiet.small", {}, "An export is an archive of every version. Import it anywhere, and it is the same thread to the hash."),
    ];
  }

  exporter(name) {
    return button(name, [icon("save"), "Export"], () => this.save());
  }

  async save() {
    const archive = await text("POST", path`/sessions/${this.id}/export`, { parameters: { format: "archive" }, body: {} });
    const address = URL.createObjectURL(new Blob([archive], { type: "application/x-ndjson" }));
    const anchor = make("a", { href: address, download: `${this.id.replace(/[^\w.-]+/g, "-")}.jsonl` });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    tell("Exported.");
  }

  /** Let the server forget an incognito chat as soon as its page is left. */
  leaveNoTrace() {
    let ended = false;
    const end = () => {
      if (ended || this.conversation.mark === null || this.chatting?.isEnded) return;
      ended = true;
      request("POST", path`/sessions/${this.id}/end`, { body: {}, keepalive: true }).catch(() => {});
    };
    this.signal.addEventListener("abort", end);
    addEventListener("pagehide", end, { signal: this.signal });
  }
}

function runCard(run, signal) {
  const kind = { running: "accent", waiting: "warn" }[run.status] ?? (run.termination === "natural" ? "good" : "bad");
  const ended = run.ended ? lasting(run.ended - run.started) : "still open";
  return make("li.card.stack.tight", {},
    make("div.row.apart.near", {}, chip(run.status === "done" ? run.termination ?? "done" : run.status, kind), make("span.small.quiet", {}, time(run.started))),
    make("span.mono.small.cut", {}, run.id),
    make("p.small.quiet", {}, `${ended} · ${count(run.usage.calls, "model call")} · ${run.usage.input_tokens.toLocaleString("en")} tokens in, ${run.usage.output_tokens.toLocaleString("en")} out · ${cost(run.usage.cost)}`),
    run.problem && make("p.small", {}, run.problem),
    stepsOf(run.id, signal));
}

