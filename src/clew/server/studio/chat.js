// A chat with an agent: what people must know first, what came before, commands, and the end of a session.

import { get, path, post, put as replace } from "./api.js";
import { CallPanel } from "./call.js";
import { COMMANDS, parsed, unknown } from "./commands.js";
import { make, put } from "./dom.js";
import { answerOf, endCard, endedCard } from "./session_end.js";
import { button, facts, link, problem, threadAt } from "./widgets.js";
import { forgetAll, sentence } from "./pages/memory.js";
import { webId } from "./format.js";

const VEILED = "This chat is incognito: nothing is kept when it ends. Ask “What do you remember about me?” for what is known until then.";
/** The name of the model where there is none. */
export const NO_MODEL = "offline";
const KEPT = ["/memory", "/forget", "/undo", "/search", "/export"];

/** What a chat adds to a conversation. `page` is {id, go, incognito, user, signal, save, reload}. */
export class Chat {
  constructor(conversation, agent, page) {
    Object.assign(this, { conversation, agent, ...page });
    if (conversation.turn) put(conversation.limits, agent.notices[0] ?? "");
  }

  /** The owner of the memory, as the API names it: a user, or the thread if it is nobody's. */
  get whose() {
    if (this.incognito) return {};
    return this.user ? { user: this.user } : { thread: this.id };
  }

  /** The beginning of a new chat: what the program is, and the user's last session. */
  async open() {
    const lines = this.incognito ? [] : (await get("/memory/catch-up", this.whose, this.signal)).lines;
    put(this.conversation.opening,
      this.agent.notices.slice(1).map((notice) => make("p.notice.small", {}, notice)),
      lines.map((line) => make("p.quiet.catch-up", {}, line)));
  }

  /** Take a line that is a command; whether it was one. */
  command(text) {
    const found = parsed(text);
    if (!found) return false;
    this.done(found.name, found.words).catch((error) => this.card(problem(error)));
    return true;
  }

  card(...parts) {
    this.conversation.card(make("section.card.stack", { role: "status" }, parts));
  }

  async done(name, words) {
    if (!(name in COMMANDS)) return this.card(make("p", {}, unknown(name)));
    if (this.incognito && KEPT.includes(name)) return this.card(make("p", {}, VEILED));
    return this[`do_${name.slice(1)}`](words);
  }

  do_help() {
    this.card(make("h2.minor", {}, "What you can ask for"),
      make("dl.facts", {}, Object.entries(COMMANDS).map(([name, [takes, about]]) => [make("dt.mono", {}, `${name} ${takes}`.trim()), make("dd", {}, about)])));
  }

  async do_status() {
    const status = await get(path`/sessions/${this.id}/status`, undefined, this.signal).catch((error) => {
      if (error.status === 404) return { status: "none", advice: "It begins with your first message." };
      throw error;
    });
    this.card(facts([["Thread", make("span.mono", {}, this.id)], ["User", this.user ?? "nobody"],
      ["Mode", this.incognito ? "incognito, nothing is kept" : `kept, ${this.agent.mode}`], ["Session", status.status], ["Model", this.agent.model === NO_MODEL ? "none" : this.agent.model], ["Next", status.advice]]));
  }

  do_history() {
    this.conversation.scroller.scrollTop = 0;
    this.conversation.stuck = false;
  }

  async do_memory(words) {
    const [what, how] = words.map((word) => word.toLowerCase());
    if (!what) return this.go(`/studio/memory?${new URLSearchParams(this.whose)}`);
    if (what !== "recall" || !["on", "off"].includes(how)) return this.card(make("p", {}, "Say /memory, or /memory recall on, or /memory recall off."));
    await replace("/memory/recall", { on: how === "on" }, this.whose);
    return this.card(make("p", {}, `Recall is ${how}: what is known ${how === "on" ? "may be brought up" : "is brought up only if you ask"}.`));
  }

  async do_forget(words) {
    const wanted = words.join(" ").toLowerCase();
    if (!wanted) return this.card(make("p", {}, "Say what to forget: /forget and a word of it."));
    const known = await get("/memory", { ...this.whose, limit: 200 }, this.signal);
    const all = [...known.rules.map((rule) => [rule, rule.text]), ...known.facts.map((fact) => [fact, sentence(fact)])];
    const found = all.filter(([entry, said]) => entry.id.startsWith(wanted) || said.toLowerCase().includes(wanted));
    if (found.length === 0) return this.card(make("p", {}, `Nothing known matches “${wanted}”. `, link("/studio/memory", "All that is remembered")));
    const done = await forgetAll(found.map(([entry]) => entry.id), this.whose);
    return this.card(make("p", {}, done ? "Forgotten. /undo brings it back." : "Nothing is forgotten."));
  }

  async do_undo(words) {
    if (words.length === 0) {
      await post("/memory/undo", {}, this.whose);
      return this.card(make("p", {}, "Undone: what is remembered is as it was before the last change."));
    }
    if (words.join(" ").toLowerCase() !== "turn") return this.card(make("p", {}, "Say /undo for what is remembered, or /undo turn for the last turn."));
    const { messages } = await get(path`/threads/${this.id}/messages`, { limit: 1 }, this.signal);
    if (!messages[0]?.run) return this.card(make("p", {}, "There is no turn to take back."));
    await post(path`/threads/${this.id}/rewind`, { run: messages[0].run });
    await this.reload();
    return this.card(make("p", {}, "The last turn is taken back."));
  }

  do_search(words) {
    if (words.length === 0) return this.card(make("p", {}, "Say what to look for: /search train to lisbon."));
    return this.go(`/studio/search?q=${encodeURIComponent(words.join(" "))}`);
  }

  do_export() { return this.save(); }

  do_threads() { this.go("/studio/threads"); }

  do_exit() { this.go("/studio/threads"); }

  do_resume([id]) {
    if (!id) return this.do_threads();
    return this.go(threadAt(id));
  }

  do_new([id]) {
    this.go(threadAt(id ?? webId()), { fresh: !id, user: this.user, incognito: this.incognito });
  }

  async do_feedback([answer]) {
    const label = answer && answerOf(answer);
    if (!label) return this.card(make("p", {}, "Say /feedback y if it helps, or /feedback n if it does not."));
    await post(path`/sessions/${this.id}/feedback`, { label });
    return this.card(make("p", {}, "Thank you. Only that answer is recorded, never a word of yours."));
  }

  async do_end([answer]) {
    if (this.conversation.isInCall) return this.panel.hangUp(); // which asks the same
    const { card, end } = this.ending();
    this.conversation.card(card);
    if (answer === undefined) card.querySelector("button").focus();
    else if (answerOf(answer) === undefined) this.card(make("p", {}, "Say /end, or /end with y, n or s for what you thought of it."));
    else await end(answerOf(answer))();
    return undefined;
  }

  ending(goOn = undefined) {
    return endCard({
      ...this.session,
      id: this.id,
      over: () => this.close(),
      cancel: () => { put(this.conversation.cards); this.conversation.box.focus(); },
      goOn,
    });
  }

  /** What a card about the end of a session needs to know. */
  get session() {
    return { user: this.whose, incognito: this.incognito, signal: this.signal, grown: () => this.conversation.showCard() };
  }

  close() {
    this.isEnded = true;
    if (this.incognito) this.conversation.close("This chat is over, and nothing of it was kept.");
  }

  // Calls.

  /** Call the agent on this thread. */
  async call() {
    if (this.conversation.isInCall || this.conversation.turning) return;
    await this.conversation.comeBack();
    this.panel = new CallPanel({
      conversation: this.conversation, id: this.id, user: this.user, incognito: this.incognito, signal: this.signal,
      onHangUp: (turns) => this.askAfterCall(turns),
      onLoss: (session) => this.showLoss(session),
      onFailure: (error) => this.showFailure(error),
    });
    await this.panel.begin();
  }

  /** Ask how a call was, and end the session; or go on in writing. */
  async askAfterCall(turns) {
    if (turns === 0) {
      this.conversation.say("The call has ended. Nothing was said.");
      return this.conversation.box.focus();
    }
    await this.reload();
    const { card } = this.ending("Go on in writing");
    this.conversation.card(card);
    return card.querySelector("button").focus();
  }

  async showLoss(session) {
    this.conversation.say(Object.assign(new Error("The connection was lost, so the call has ended."), { code: "connection_lost" }));
    if (!session) return;
    if (!this.incognito) await this.reload(); // or else there is nothing left to read
    this.close();
    const card = endedCard({ ...this.session, episode: session.episode });
    this.conversation.card(card);
    card.focus({ preventScroll: true });
  }

  showFailure(error) {
    this.conversation.say("");
    if (error) this.card(problem(error), make("div.row.near", {}, button("button", "Call again", () => this.call())));
    this.conversation.box.focus();
  }
}
