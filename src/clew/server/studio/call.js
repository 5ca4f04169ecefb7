// A call in a chat: who speaks, what is said as it grows, mute, and hanging up.

import { request } from "./api.js";
import { make, put } from "./dom.js";
import { icon } from "./icons.js";
import { prose } from "./prose.js";
import { Call } from "./voice.js";
import { button, problem, tell } from "./widgets.js";

const SECOND = 1000;
const CONNECTING = "Connecting. Allow the microphone if your browser asks for it.";
const CONNECTED = "You are connected. Say something.";
const LEFT = "The call has ended, because you left its page.";
const SPEAKERS = {
  connecting: ["Connecting", ""],
  listening: ["Listening", ""],
  muted: ["You are muted", "warn"],
  you: ["You are speaking", "good"],
  checking: ["Understanding", ""],
  answering: ["Answering", "accent"],
  assistant: ["The assistant speaks", "accent"],
  unsteady: ["Unsteady connection", "warn"],
};

/** The way of a call to the server. */
const server = {
  async post(where, body, key, { keepalive = false } = {}) {
    const response = await request("POST", where, { body, headers: key ? { "Idempotency-Key": key } : {}, keepalive });
    return response.json();
  },
};

/**
 * A call in place of the box to write into.
 *
 * `onHangUp(turns)` is called when the person has hung up, with the number of turns that are kept; `onLoss(session)`
 * when the connection is gone; `onFailure(error)` if the call could not begin, without an error if it was given up.
 */
export class CallPanel {
  constructor({ conversation, id, user, incognito, signal, onHangUp, onLoss, onFailure }) {
    Object.assign(this, { conversation, id, user, incognito, signal, onHangUp, onLoss, onFailure });
    this.call = null;
    this.starting = new AbortController();
    this.lines = new Map(); // partial lines by their ids
    this.sound = make("audio", { autoplay: true });
    this.speaker = make("span.speaker", {});
    this.clock = make("span.quiet.small", { role: "timer", "aria-label": "How long the call lasts" });
    this.muter = make("button", { type: "button", "aria-pressed": "false", hidden: true, onclick: () => this.mute() }, icon("microphone"), "Mute");
    this.element = make("section.call", { "aria-label": "Call", tabindex: "-1" }, this.speaker, this.clock, this.sound,
      make("div.row.near", {}, this.muter, button("button.bad.main", [icon("hangup"), "Hang up"], () => this.hangUp())));
    this.attend("connecting");
  }

  async begin() {
    const { conversation, id, user, incognito } = this;
    conversation.startCall(this.element);
    conversation.say(CONNECTING);
    this.signal.addEventListener("abort", () => this.leave());
    addEventListener("pagehide", () => this.call?.leave(), { signal: this.signal });
    try {
      this.call = await Call.begin({
        server, thread: id, signal: this.starting.signal,
        ...(incognito ? { mode: "incognito" } : { user }),
        show: (line) => this.show(line), attend: (speaker) => this.attend(speaker),
        onSave: () => { if (!this.signal.aborted) conversation.changed({ type: "settled" }); },
        onLoss: (session) => this.lose(session), play: (stream) => this.play(stream),
      });
    } catch (error) {
      this.close();
      this.onFailure(this.starting.signal.aborted ? null : error);
      return;
    }
    this.startClock();
    this.muter.hidden = false;
    conversation.say(CONNECTED);
  }

  play(stream) {
    this.sound.srcObject = stream;
    this.sound.play().catch(() => {}); // the words can be read
  }

  startClock() {
    const start = Date.now();
    const tick = () => put(this.clock, clockTime(Math.floor((Date.now() - start) / SECOND)));
    this.timer = setInterval(tick, SECOND);
    tick();
  }

  // What is said.

  attend(speaker) {
    this.attention = speaker;
    const [text, kind] = SPEAKERS[this.isMuted && ["listening", "you"].includes(speaker) ? "muted" : speaker];
    this.speaker.className = ["speaker", kind].filter(Boolean).join(" ");
    put(this.speaker, text);
  }

  show(line) {
    if (this.signal.aborted) return;
    this.conversation.clearHint();
    if (this.conversation.status.textContent === CONNECTED) this.conversation.say("");
    this.lines.get(line.id)?.remove();
    this.lines.delete(line.id);
    if (line.partial) this.showPartial(line);
    else if (line.kind === "problem") this.showProblem(line);
    else if (line.kind !== "nothing") this.showMessage(line);
  }

  showPartial({ kind, id, text }) {
    const words = make("div.said", {}, kind === "you" ? text : prose(text));
    const element = make(`div.message.${kind === "you" ? "user" : "assistant"}.live`, {}, words);
    this.lines.set(id, element);
    this.conversation.tail.append(element);
  }

  showMessage(line) {
    const element = this.conversation.transcript.add(messageOf(line));
    if (line.kind !== "careful") return;
    element.setAttribute("role", "alert"); // read at once, though nothing else of a call is: it is heard
    this.conversation.showFrom(element);
  }

  showProblem({ text, code }) {
    const report = Object.assign(new Error(text), { code });
    if (this.call?.isOver) this.conversation.say(report); // the messages are read again when a call is over
    else this.conversation.transcript.element.append(problem(report));
  }

  // The end.

  mute() {
    this.isMuted = !this.isMuted;
    this.call.mute(this.isMuted);
    this.muter.setAttribute("aria-pressed", String(this.isMuted));
    this.attend(this.attention);
  }

  close() {
    clearInterval(this.timer);
    this.sound.srcObject = null;
    this.lines.forEach((element) => element.remove());
    this.conversation.endCall(this.element);
  }

  async hangUp() {
    if (!this.call) return this.starting.abort();
    if (this.call.isOver) return undefined;
    this.conversation.say("");
    await this.call.hangUp();
    this.close();
    return this.onHangUp(this.call.savedTurns);
  }

  lose(session) {
    this.close();
    if (this.signal.aborted) tell(LEFT);
    else this.onLoss(session);
  }

  /** The person goes to another page. */
  leave() {
    this.starting.abort();
    this.call?.lose();
  }
}

/** Minutes and seconds: 1:05. */
function clockTime(seconds) {
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A line of a call as the API's list of messages has it. */
function messageOf({ kind, id, text = "", name, arguments: input, output }) {
  const isTool = kind === "tool";
  return {
    role: kind === "you" ? "user" : "assistant", text, time: Date.now(), format: "clew", visibility: "all", version: null,
    calls: isTool ? [{ id, name, arguments: input }] : [], results: isTool ? [{ id, name, output }] : [],
    meta: { modality: "voice", ...(kind === "careful" && { fixed: true }) },
  };
}
