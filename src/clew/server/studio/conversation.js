// The conversation: what was said, the answer as it comes, a box to write into, and a way to stop.

import { get, path, post } from "./api.js";
import { make, put } from "./dom.js";
import { icon } from "./icons.js";
import { button, problem } from "./widgets.js";
import { prose } from "./prose.js";
import { isAfter, listen } from "./stream.js";
import { asListed, Transcript } from "./transcript.js";

const PAGE = 60;
const END = 999_999_999; // no event of a version has a place behind this one
const NEAR = 80;
const GAP = 12;
const ENDINGS = { cancelled: "Stopped.", error: "The turn failed.", interrupted: "The turn was interrupted.", suspended: "It waits for a decision.", superseded: "The next message cut it short.", rolled_back: "The next message took it back." };

/**
 * The conversation of one thread.
 *
 * With `turn` ({user, incognito}) one can write into it; otherwise `closed` says why not. `changed(event)` gets
 * every durable event. `command(text)` takes what is no message, and says whether it did. `call()` begins a call.
 * `present()` is called when a user who looked back calls, and is at the newest version again. `draft` keeps what is
 * not sent yet, also when the page is left; an incognito conversation has none.
 */
export class Conversation {
  constructor({ id, turn, closed, signal, changed, command = () => false, call = () => {}, present = () => {}, draft = null }) {
    Object.assign(this, { id, turn, signal, changed, command, call, present, draft, resend: null });
    Object.assign(this, { mark: null, at: null, log: "history", run: null, turning: null, follower: null, live: null, unsent: null });
    this.opening = make("div.messages", {});
    this.older = make("div.row", {});
    this.transcript = new Transcript(make("div.messages", {}));
    this.tail = make("div.messages", { "aria-live": "off" });
    this.decisions = make("div.messages", {});
    this.cards = make("div.messages", {});
    this.scroller = make("div.scroll", { tabindex: "0", role: "log", "aria-label": "Messages" },
      this.opening, this.older, this.transcript.element, this.tail, this.decisions, this.cards);
    this.past = make("div", {});
    this.status = make("p.quiet.small", { role: "status" });
    this.limits = make("p.quiet.small", {});
    this.foot = make("div.foot", {}, this.past, this.status, turn ? this.composer() : null, this.limits);
    if (!turn) this.close(closed);
    this.element = make(`section.conversation${turn?.incognito ? ".veiled" : ""}`, { "aria-label": "Conversation" }, this.scroller, this.foot);
    this.stuck = true;
    this.held = null;
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    const resized = new ResizeObserver(() => { if (this.stuck) this.scrollDown(); });
    [this.scroller, this.transcript.element, this.tail, this.decisions, this.cards].forEach((part) => resized.observe(part));
    signal.addEventListener("abort", () => resized.disconnect());
    document.addEventListener("visibilitychange", () => this.watch(), { signal });
    signal.addEventListener("abort", () => { this.follower?.abort(); this.turning?.abort(); });
  }

  /** Let nobody write here, and say why. */
  close(why) {
    this.turn = null;
    put(this.foot, this.past, make("p.quiet.small", {}, why), this.status, this.limits);
  }

  /** Put a line about a past version in the place of the box, which cannot be written to; nothing for the newest one. */
  showPast(line) {
    const hadFocus = this.past.contains(document.activeElement);
    put(this.past, line);
    if (!this.form) return;
    this.form.hidden = Boolean(line) || this.isInCall === true;
    if (!line && hadFocus && this.turn) this.box.focus();
  }

  composer() {
    this.box = make("textarea", { rows: 1, placeholder: "Write a message", "aria-label": "Message" });
    this.sender = make("button.main.icon", { type: "submit", "aria-label": "Send", title: "Send" }, icon("send"));
    this.stopper = button("button.icon.bad", icon("stop"), () => this.stop(), { "aria-label": "Stop", title: "Stop", hidden: true });
    this.box.addEventListener("input", () => { this.fit(); this.draft?.write(this.box.value); });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    this.phone = make("button.icon", { type: "button", "aria-label": "Call", title: "Call", onclick: () => this.call() }, icon("phone"));
    const form = this.form = make("form.composer", {}, this.box, this.phone, this.stopper, this.sender);
    form.addEventListener("submit", (event) => { event.preventDefault(); this.send(this.box.value.trim()); });
    return form;
  }

  /** Let a call take the place of the box. What is said in it is heard, so it is not read out; nor is the thread followed. */
  startCall(panel) {
    this.isInCall = true;
    this.watch();
    put(this.cards);
    this.form.hidden = true;
    this.foot.insertBefore(panel, this.limits);
    this.scroller.setAttribute("aria-live", "off");
    panel.focus();
    this.scrollDown();
  }

  endCall(panel) {
    this.isInCall = false;
    panel.remove();
    this.form.hidden = this.past.hasChildNodes();
    this.scroller.removeAttribute("aria-live");
    this.watch();
  }

  /** Take away what is shown where nothing was said yet. */
  clearHint() {
    if (this.tail.firstElementChild?.tagName === "P") put(this.tail);
  }

  fit() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight + 2, 160)}px`;
  }

  /** Put back what was written when the page was left. What was being sent then is sent with the same key, so it arrives once. */
  takeUpDraft() {
    const { text, sending } = this.draft?.read() ?? {};
    if (!text && !sending) return;
    this.resend = sending;
    this.box.value = [sending?.text, text].filter(Boolean).join("\n");
    this.fit();
    if (sending) this.say("This message may not have been sent. Send it again: it arrives once.");
  }

  // Reading.

  /** Show the messages at a version, or now. */
  async load(at = null) {
    this.at = at;
    const page = await get(path`/threads/${this.id}/messages`, { limit: PAGE, at, log: this.log }, this.signal);
    if (this.at !== at) return;
    this.transcript.clear();
    put(this.tail);
    this.live = null;
    const parts = page.messages.map((message) => this.transcript.add(message));
    this.tail.hidden = this.decisions.hidden = at !== null;
    if (at === null) this.mark = `${page.version}.${END}`;
    this.foreign = page.messages.find((message) => message.format !== "clew")?.format ?? null;
    this.showOlder(page.next);
    if (page.messages.length === 0) put(this.tail, make("p.quiet", {}, "Nothing was said yet."));
    this.tail.hidden = at !== null && page.messages.length > 0;
    this.scrollDown();
    if (isCareful(parts.at(-1))) this.showFrom(parts.at(-1));
  }

  showOlder(cursor) {
    put(this.older, cursor && button("button.small", "Show earlier messages", async () => {
      const height = this.scroller.scrollHeight;
      this.stuck = false;
      const page = await get(path`/threads/${this.id}/messages`, { limit: PAGE, at: this.at, log: this.log, cursor }, this.signal);
      this.transcript.before(page.messages);
      this.showOlder(page.next);
      this.scroller.scrollTop += this.scroller.scrollHeight - height;
    }));
  }

  isNearEnd() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < NEAR;
  }

  /** React to a scroll; if the position is the one that we have set, that was us. */
  scrolled() {
    if (this.scroller.scrollTop === this.held) return;
    this.held = null;
    this.stuck = this.isNearEnd();
  }

  scrollDown() {
    this.stuck = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.held = this.scroller.scrollTop;
  }

  /** Follow the thread while nobody writes here and the page can be seen. */
  watch() {
    const should = this.mark !== null && !this.turning && !this.isInCall && !this.turn?.incognito && !document.hidden && !this.signal.aborted;
    if (!should) {
      this.follower?.abort();
      this.follower = null;
      return;
    }
    if (this.follower) return;
    const follower = this.follower = new AbortController();
    this.listening({ method: "GET", where: path`/threads/${this.id}/events` }, follower.signal)
      .catch((error) => {
        if (error.status === 404) this.mark = null; // it was deleted; another of this id begins with version 1
        this.say(error);
      });
  }

  listening(ask, signal) {
    let isLost = false;
    return listen(ask, {
      signal,
      last: () => this.mark,
      hear: (event) => this.hear(event),
      cut: (failures) => {
        this.dropLive();
        if (failures) this.say("The connection is lost. Trying again…");
        isLost = failures > 0;
      },
      back: () => { if (isLost) this.say(""); }, // how a turn ended is still to be read
    });
  }

  hear({ type, id, data }) {
    if (id !== null) {
      if (!isAfter(id, this.mark)) return;
      this.mark = id;
    }
    if (type === "run_started") this.began(data.run);
    else if (type === "stage") this.atWork(data.label);
    else if (type === "text") this.grow(data);
    else if (type === "message") this.keep(data.message, Number(id.split(".")[0]));
    else if (type === "rewritten") this.rewritten = true;
    else if (type === "run_finished") this.finished(data);
    if (id !== null) this.changed({ type, id, data });
  }

  keep(message, version) {
    this.dropLive();
    if (message.role === "user") this.dropUnsent();
    if (message.role === "user" && this.turning) this.draft?.endSending();
    if (this.at !== null || this.log !== "history") return;
    this.clearHint();
    const added = this.transcript.add(asListed(message, version));
    if (isCareful(added)) this.showFrom(added);
  }

  /** Show a message from its beginning: what matters most in it is there. */
  showFrom(element) {
    this.stuck = false;
    const { scroller } = this; // and not the page around it, which scrollIntoView moves too
    requestAnimationFrame(() => {
      scroller.scrollTop += element.getBoundingClientRect().top - scroller.getBoundingClientRect().top - GAP;
      this.held = scroller.scrollTop;
      this.stuck = false; // an earlier scroll may have been reported meanwhile
    });
  }

  /** What is at work, in words for people, until there is an answer to read. */
  atWork(label) {
    if (label && !this.live) this.say(`${label}…`);
  }

  /** Some more of an answer that is not durable yet, put where it belongs; another attempt begins anew. */
  grow({ text, step, attempt, offset = 0 }) {
    const name = `${step}.${attempt ?? 1}`;
    if (this.live?.name !== name) {
      this.dropLive();
      this.say("");
      const said = make("div.said", { dir: "auto" });
      this.live = { name, said, text: "", element: make("div.message.assistant.live", {}, said) };
      this.tail.append(this.live.element);
    }
    // Counted in characters, not in halves of them. What comes again after a reconnect takes its own place.
    this.live.text = [...this.live.text].slice(0, offset).join("") + text;
    put(this.live.said, prose(this.live.text));
  }

  dropLive() {
    this.live?.element.remove();
    this.live = null;
  }

  dropUnsent() {
    this.unsent?.remove();
    this.unsent = null;
  }

  // Writing.

  async send(text) {
    if (!text || this.turning) return;
    if (this.command(text)) {
      this.box.value = "";
      this.draft?.write("");
      this.fit();
      return;
    }
    put(this.cards);
    this.box.value = "";
    this.fit();
    const key = this.resend?.text === text ? this.resend.key : crypto.randomUUID();
    this.resend = null;
    this.draft?.beginSending(text, key);
    const turning = this.turning = new AbortController();
    this.watch();
    this.busy(true);
    this.clearHint();
    this.unsent = make("div.message.user.unsent", {}, make("div.said", { dir: "auto" }, text));
    this.tail.append(this.unsent);
    this.scrollDown();
    this.say("");
    const body = this.turn.incognito ? { message: text, mode: "incognito" } : { message: text, user: this.turn.user };
    try {
      await this.listening({ method: "POST", where: path`/threads/${this.id}/turns`, body, headers: { "Idempotency-Key": key } }, turning.signal);
      if (!turning.signal.aborted) this.draft?.endSending(); // or else nobody knows whether it has arrived
    } catch (error) {
      this.draft?.endSending();
      if (this.unsent) {
        this.box.value = text;
        this.draft?.write(text);
      }
      this.fit();
      this.say(error);
    } finally {
      await this.settled();
    }
  }

  /** Show the newest version again, if a user looked back. */
  async comeBack() {
    if (this.at === null) return;
    await this.load();
    this.present();
  }

  /** Show something that is no message, below the conversation. */
  card(element) {
    put(this.cards, element);
    this.showCard();
  }

  /** Scroll to the card; if there is no room for all of it, to its beginning. */
  showCard() {
    const card = this.cards.firstElementChild;
    this.scrollDown();
    if (card?.offsetHeight > this.scroller.clientHeight) this.showFrom(card);
  }

  async settled() {
    this.dropLive();
    this.dropUnsent();
    this.turning = null;
    this.busy(false);
    if (this.signal.aborted) return;
    if (this.rewritten) {
      this.rewritten = false;
      await this.load();
    }
    this.changed({ type: "settled" });
    this.watch();
  }

  async stop() {
    if (this.run) await post(path`/runs/${this.run}/cancel`);
  }

  began(run) {
    this.run = run;
    if (this.turn) this.stopper.hidden = false;
  }

  finished({ termination, problem: why }) {
    this.run = null;
    this.say("");
    if (this.turn) this.stopper.hidden = true;
    this.dropLive();
    const ending = ENDINGS[termination];
    const notice = why ? `${ending} ${why}` : ending;
    if (ending) this.say(termination === "error" ? new Error(notice) : notice);
    if (this.rewritten && !this.turning) {
      this.rewritten = false;
      this.load(this.at).catch((error) => this.say(error));
    }
  }

  busy(on) {
    this.element.setAttribute("aria-busy", String(on));
    this.sender.disabled = this.phone.disabled = on;
    if (on) return;
    this.stopper.hidden = true;
    if (!this.form.hidden) this.box.focus();
  }

  say(said) {
    if (said?.name === "AbortError") return;
    put(this.status, said instanceof Error ? problem(said) : said);
  }
}

/** True if a part is fixed words for a person in danger, which are read from their beginning. */
function isCareful(part) {
  return part?.classList.contains("careful") ?? false;
}
