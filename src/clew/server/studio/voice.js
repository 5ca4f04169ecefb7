// A call from a browser: the handshake with a realtime provider, and every utterance judged before it is answered.
//
//   const call = await Call.begin({ server, thread, user, show: console.log });
//   …
//   await call.end();
//
// `server` is {post(where, body, key, options)}, which sends to Clew; with the option `keepalive` also from a page that
// is being closed. The provider's key never comes here: the server gives a secret that is good for one call. Pages need
// a content policy that lets them reach the provider.

const SPEECH = "conversation.item.input_audio_transcription";
const CALL = "function_call";
const ALIVE_SECONDS = 60;
const AFTER_SECONDS = 20 * 60; // how long a session is open for an end or for a text turn, once the call is over
const CONNECT_SECONDS = 20;
const NOT_CHECKED = "What you said could not be checked just now, so it is not answered. If you are in danger, call your emergency number.";
const NOT_UNDERSTOOD = "What you said could not be understood, so it is not answered. Please say it again. If you are in danger, call your emergency number.";
const NOT_SPOKEN = "The words above could not be spoken. Please read them.";
const NOT_KEPT = "Part of what was said could not be kept.";
const ACTIVE = "conversation_already_has_active_response";
const HARMLESS = ["response_cancel_not_active"]; // an answer that is to be stopped may be over already
const MICROPHONE = {
  NotAllowedError: ["microphone_refused", "The microphone is not allowed. Allow it for this page beside its address, and call again."],
  NotFoundError: ["microphone_missing", "No microphone was found. Connect one, and call again."],
  NotReadableError: ["microphone_busy", "The microphone cannot be used. Another program may have it: close that, and call again."],
};

/** A call that could not begin. Its code says why. */
export class CallFailed extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

/** The person's microphone, once they allow it. */
export async function openMicrophone() {
  if (!navigator.mediaDevices) {
    throw new CallFailed("A browser gives a microphone only to pages that come over https or from this machine. Open this page over https, and call again.", "insecure_page");
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch (error) {
    const [code, message] = MICROPHONE[error.name] ?? ["microphone_failed", `The microphone cannot be used: ${error.message}`];
    throw new CallFailed(message, code);
  }
}

/**
 * A call on a thread.
 *
 * `show(line)` gets what is said: {kind, id, text}, where kind is "you", "reply", "careful" (fixed words instead of an
 * answer), "tool" or "problem", which has a code. A line that is `partial` comes again under its id, with more words;
 * of one whose kind is "nothing" no more comes.
 * `attend(speaker)` is told who speaks: "listening", "you", "checking", "answering", "assistant" or "unsteady".
 * `onSave()` is called when a turn is kept, `onLoss(session)` if the connection is lost; the session has ended then.
 */
export class Call {
  constructor({ server, thread, user, mode, gated, show, attend = () => {}, onSave = () => {}, onLoss = () => {}, peer, channel, microphone }) {
    Object.assign(this, { server, thread, user, mode, gated, show, attend, onSave, onLoss, peer, channel, microphone });
    this.path = `/sessions/${encodeURIComponent(thread)}/voice`;
    this.turn = null; // the newest
    this.openTurns = new Set(); // turns that wait for the end of their answer
    this.response = null; // the one that the provider is at; there is never a second
    this.queue = []; // responses to be asked for when it is done
    this.unsavedTurns = [];
    this.saving = Promise.resolve();
    this.savedTurns = 0;
    this.drafts = new Map(); // partial lines by their ids
    Object.assign(this, { isOver: false, isSpeaking: false, isChecking: false, isAudible: false, speaker: null });
    channel.addEventListener("message", ({ data }) => this.hear(JSON.parse(data)));
    channel.addEventListener("close", () => this.lose());
    peer.addEventListener("connectionstatechange", () => this.watchConnection());
    this.timer = setInterval(() => this.stayAlive(), (ALIVE_SECONDS * 1000) / 2);
    this.showSpeaker();
  }

  /** Ask the server for a secret, and the provider for a connection. */
  static async begin({
    server, thread, user = undefined, mode = undefined, gated = true, show, attend, onSave, onLoss, play, signal = new AbortController().signal,
    microphone = openMicrophone, connection = () => new RTCPeerConnection(), send = (...request) => fetch(...request),
  }) {
    const session = await server.post(`/sessions/${encodeURIComponent(thread)}/voice/session`, { gated, user, mode });
    signal.throwIfAborted();
    const sound = await microphone();
    const peer = connection();
    try {
      signal.throwIfAborted();
      peer.addEventListener("track", (event) => play?.(event.streams[0] ?? new MediaStream([event.track])));
      for (const track of sound.getTracks()) peer.addTrack(track, sound);
      const channel = peer.createDataChannel("oai-events");
      await shakeHands(peer, session, send, signal);
      await untilOpen(peer, channel, signal);
      return new Call({ server, thread, user, mode, gated: session.gated, show, attend, onSave, onLoss, peer, channel, microphone: sound });
    } catch (error) {
      sound.getTracks().forEach((track) => track.stop());
      peer.close();
      throw error;
    }
  }

  // What the provider tells.

  /** React to one event of the provider. */
  async hear(event) {
    if (this.isOver) return;
    const reaction = {
      "input_audio_buffer.speech_started": () => { this.isSpeaking = true; },
      "input_audio_buffer.speech_stopped": () => { this.isSpeaking = false; this.isChecking = true; },
      "output_audio_buffer.started": () => { this.isAudible = true; },
      "output_audio_buffer.stopped": () => { this.isAudible = false; },
      "output_audio_buffer.cleared": () => { this.isAudible = false; },
      [`${SPEECH}.delta`]: () => this.grow("you", event.item_id, event.delta),
      [`${SPEECH}.completed`]: () => this.judge(event.item_id, event.transcript),
      [`${SPEECH}.failed`]: () => this.refuse(event.item_id, NOT_UNDERSTOOD, "not_understood"),
      "response.created": () => this.noteResponse(event.response ?? {}),
      "response.output_audio_transcript.delta": () => this.growReply(event),
      "response.output_text.delta": () => this.growReply(event),
      "response.output_audio_transcript.done": () => this.addReply(event.item_id, event.transcript),
      "response.output_text.done": () => this.addReply(event.item_id, event.text),
      "response.done": () => this.finishResponse(event.response ?? {}),
      error: () => this.reportError(event.error ?? {}),
    }[event.type];
    const work = reaction?.();
    this.showSpeaker();
    await work;
    this.showSpeaker();
  }

  /** Have an utterance judged. Only then is it answered; if it must not be, fixed words are said instead. */
  async judge(id, text) {
    if (!text.trim()) return this.dropDraft(id); // a noise
    const earlier = this.turn;
    const turn = this.turn = newTurn(id, text);
    this.openTurns.add(turn);
    this.drafts.delete(id);
    this.show({ kind: "you", id, text });
    let verdict;
    try {
      if (earlier && !this.openTurns.has(earlier)) await this.save(earlier);
      verdict = await this.post("/heard", { id, said: text, late: !this.gated });
    } catch (error) {
      this.openTurns.delete(turn);
      if (this.turn !== turn) this.save(turn);
      return this.refuse(id, NOT_CHECKED, error.code ?? "not_checked");
    }
    this.isChecking = false;
    turn.isJudged = true;
    if (!verdict.release) return this.sayFixed(turn, verdict.say);
    if (turn.isDropped) return this.finishTurn(turn);
    if (this.gated) return this.ask(turn);
    this.openTurns.delete(turn); // its answer comes without being asked for
    return undefined;
  }

  /** Say and show fixed words instead of an answer; nothing that was to be answered before is answered any more. */
  sayFixed(turn, words) {
    turn.fixed = words;
    this.silence();
    const droppedTurns = this.queue.splice(0).map((each) => each.turn);
    for (const other of this.openTurns) other.isDropped = other !== turn;
    droppedTurns.forEach((other) => this.finishTurn(other));
    this.show({ kind: "careful", id: `${turn.id}-fixed`, text: words });
    this.ask(turn, { tool_choice: "none", instructions: `Say exactly these words, calmly, and nothing else:\n\n${words}` });
  }

  /** Leave an utterance unanswered, and say so. */
  refuse(id, text, code) {
    this.isChecking = false;
    this.dropDraft(id);
    if (!this.gated) this.silence();
    this.report(text, code);
  }

  /** Stop an answer that is under way. */
  silence() {
    const isAnswering = this.response !== null || !this.gated;
    if (this.response) this.response.isCancelled = true;
    if (isAnswering) this.tellProvider({ type: "response.cancel" });
    if (isAnswering || this.isAudible) this.tellProvider({ type: "output_audio_buffer.clear" });
  }

  // Answers, one at a time: a provider refuses to begin one while it is at another.

  ask(turn, response = undefined) {
    this.openTurns.add(turn);
    this.queue.push({ turn, response });
    this.askNext();
  }

  askNext() {
    if (this.response || this.isOver || this.queue.length === 0) return;
    this.response = { ...this.queue.shift(), event: crypto.randomUUID() };
    const { event, response } = this.response;
    this.tellProvider({ type: "response.create", event_id: event, ...(response && { response }) });
  }

  noteResponse({ id }) {
    this.response ??= { turn: null }; // where answers are not held back, they come without being asked for
    this.response.id = id;
    if (this.response.isCancelled) this.tellProvider({ type: "response.cancel", ...(id && { response_id: id }) }); // before this, there was none to stop
  }

  /** The turn that the provider answers; one that nobody has begun, if it speaks first. */
  answeredTurn() {
    this.response ??= { turn: null };
    return this.response.turn ??= this.turn ??= silentTurn();
  }

  growReply({ item_id: id, delta }) {
    if (!this.answeredTurn().fixed) this.grow("reply", id, delta);
  }

  addReply(id, text) {
    const turn = this.answeredTurn();
    if (turn.fixed || !text) return this.dropDraft(id);
    this.drafts.delete(id);
    turn.reply = [turn.reply, text].filter(Boolean).join(" ");
    return this.show({ kind: "reply", id, text });
  }

  /** An answer is over: what it asks for is done, or the turn is. */
  async finishResponse({ status, status_details: details, output = [] }) {
    const turn = this.answeredTurn();
    for (const [id, draft] of [...this.drafts]) if (draft.kind === "reply") this.addReply(id, draft.text);
    this.response = null;
    this.askNext();
    if (status === "failed") this.reportFailure(turn, details?.error ?? {});
    const calls = status === "completed" && !turn.fixed ? output.filter((item) => item.type === CALL) : [];
    if (calls.length === 0) return this.finishTurn(turn);
    this.openTurns.add(turn);
    for (const call of calls) await this.useTool(turn, call);
    return turn.isDropped ? this.finishTurn(turn) : this.ask(turn);
  }

  async finishTurn(turn) {
    if ([this.response, ...this.queue].some((each) => each?.turn === turn)) return; // it is answered once more
    this.openTurns.delete(turn);
    await this.save(turn);
  }

  /** Call a tool for the model, once however often it is asked for, and give it the output. */
  async useTool(turn, { call_id: id, name, arguments: json }) {
    const call = { id, name, arguments: null, output: null };
    try {
      call.arguments = JSON.parse(json || "{}");
      call.output = (await this.post("/tools", { id, name, arguments: call.arguments })).output;
    } catch (error) {
      call.output = { error: error.message };
    }
    turn.calls.push(call);
    this.show({ kind: "tool", id, ...call });
    this.tellProvider({ type: "conversation.item.create", item: { type: "function_call_output", call_id: id, output: JSON.stringify(call.output) } });
  }

  reportFailure(turn, { message = "it gave no reason" }) {
    if (turn.fixed) this.report(NOT_SPOKEN, "not_spoken");
    else this.report(`The model could not answer: ${message}`, "not_answered");
  }

  /** React to an error of the provider: an answer that it refuses will have no end, so it is over here. */
  reportError({ code, message = "it gave no reason", event_id: event }) {
    if (HARMLESS.includes(code)) return undefined;
    const refusal = this.response && !this.response.id && (event === this.response.event || code === ACTIVE) ? this.response : null;
    if (refusal && code === ACTIVE) {
      this.queue.unshift(refusal);
      this.response = { turn: silentTurn() }; // one that was not asked for here; it has an end
      return undefined;
    }
    if (!refusal) return this.report(`The provider reports a problem: ${message}`, "provider_problem");
    this.reportFailure(refusal.turn, { message });
    this.response = null;
    this.askNext();
    return this.finishTurn(refusal.turn);
  }

  // What is shown.

  report(text, code) {
    this.show({ kind: "problem", id: crypto.randomUUID(), text, code });
  }

  grow(kind, id, delta = "") {
    const text = (this.drafts.get(id)?.text ?? "") + delta;
    this.drafts.set(id, { kind, text });
    this.show({ kind, id, text, partial: true });
  }

  /** Take a partial line back: nothing more comes of it. */
  dropDraft(id) {
    if (this.drafts.get(id)?.kind !== "reply") this.isChecking = false;
    if (this.drafts.delete(id)) this.show({ kind: "nothing", id });
  }

  showSpeaker() {
    const speaker = this.currentSpeaker();
    if (speaker === this.speaker || this.isOver) return;
    this.speaker = speaker;
    this.attend(speaker);
  }

  currentSpeaker() {
    if (this.peer.connectionState === "disconnected") return "unsteady";
    if (this.isSpeaking) return "you";
    if (this.isAudible) return "assistant";
    if (this.isChecking) return "checking";
    return this.response || this.openTurns.size ? "answering" : "listening";
  }

  // What is kept.

  /** Let the server keep a turn, and those before it that it could not. An id is a key: each is kept once. */
  save(turn) {
    if (this.turn === turn) this.turn = null;
    if (turn.isSaved || isEmpty(turn)) return this.saving;
    turn.isSaved = true;
    this.unsavedTurns.push(turn);
    this.saving = this.saving.then(() => this.saveAll());
    return this.saving;
  }

  async saveAll() {
    for (const turn of [...this.unsavedTurns]) {
      try {
        await this.post("", bodyOf(turn), turn.id);
      } catch {
        continue; // it is sent again with the next turn; until then it withholds no judgement and no answer
      }
      this.savedTurns += 1;
      this.unsavedTurns = this.unsavedTurns.filter((other) => other !== turn);
      this.onSave();
    }
  }

  /** Save what is not saved yet, when the call is over. */
  async saveRest() {
    for (const turn of new Set([...this.openTurns, ...(this.turn ? [this.turn] : [])])) await this.finishTurn(turn);
    await (this.saving = this.saving.then(() => this.saveAll()));
    if (this.unsavedTurns.length) this.report(NOT_KEPT, "not_kept");
  }

  stayAlive(seconds = ALIVE_SECONDS) {
    return this.server.post(`${this.path}/alive`, { seconds }).catch(() => {}); // the next sign may come through
  }

  post(where, body, key = undefined, options = undefined) {
    return this.server.post(this.path + where, { ...body, user: this.user, mode: this.mode }, key, options);
  }

  tellProvider(event) {
    if (this.channel.readyState === "open") this.channel.send(JSON.stringify(event));
  }

  // The end.

  /** Let nothing be heard of the person, or again. */
  mute(isMuted) {
    for (const track of this.microphone.getTracks()) track.enabled = !isMuted;
  }

  watchConnection() {
    if (["failed", "closed"].includes(this.peer.connectionState)) this.lose();
    else this.showSpeaker();
  }

  close() {
    this.isOver = true;
    this.queue = [];
    this.response = null;
    clearInterval(this.timer);
    this.microphone.getTracks().forEach((track) => track.stop());
    this.channel.close();
    this.peer.close();
  }

  /** Hang up, and keep what was said. The session stays open for an end, or for a text turn. */
  async hangUp() {
    if (this.isOver) return;
    this.close();
    await this.saveRest();
    if (this.savedTurns) await this.stayAlive(AFTER_SECONDS);
  }

  /** Hang up, and end the session by the same path as text. */
  async end(feedback = null) {
    if (this.isOver) return null;
    await this.hangUp();
    return this.server.post(`/sessions/${encodeURIComponent(this.thread)}/end`, { feedback });
  }

  /** The connection is gone: so is the call, and its session ends. */
  async lose() {
    if (this.isOver) return;
    this.close();
    await this.saveRest();
    let session = null;
    if (this.savedTurns) session = await this.server.post(`${this.path}/lost`, {}).catch(() => null); // or else its time runs out
    this.onLoss(session);
  }

  /** The page is being closed, and nothing can be waited for. A turn that is sent has a time limit of its own. */
  leave() {
    if (this.isOver) return;
    this.close();
    const rest = [...new Set([...this.unsavedTurns, ...this.openTurns, ...(this.turn ? [this.turn] : [])])].filter((turn) => !isEmpty(turn));
    for (const turn of rest) this.post("", bodyOf(turn), turn.id, { keepalive: true }).catch(() => {});
    if (rest.length === 0 && this.savedTurns) this.server.post(`${this.path}/lost`, {}, undefined, { keepalive: true }).catch(() => {});
  }
}

/** An utterance, and what becomes of it: judged or not, fixed words instead of an answer, tools, a reply. */
function newTurn(id, text) {
  return { id, text, reply: "", calls: [], fixed: "", isJudged: false, isDropped: false, isSaved: false };
}

/** A turn in which the person said nothing, for an answer that comes by itself. */
function silentTurn() {
  return { ...newTurn(crypto.randomUUID(), ""), isJudged: true };
}

function isEmpty({ text, reply, calls }) {
  return !text && !reply && calls.length === 0;
}

/** A turn as the server takes it, which takes it for a sign of life too. */
function bodyOf({ text, reply, fixed, calls, isJudged }) {
  return { said: text, replied: fixed || reply, heard: isJudged, tool_calls: calls, seconds: ALIVE_SECONDS };
}

/** Give the provider our description of the connection, and take its own. */
async function shakeHands(peer, { url, secret }, send, signal) {
  const offer = await peer.createOffer();
  await peer.setLocalDescription(offer);
  let answer;
  try {
    answer = await send(url, { method: "POST", signal, body: offer.sdp, headers: { Authorization: `Bearer ${secret}`, "Content-Type": "application/sdp" } });
  } catch {
    signal.throwIfAborted();
    throw new CallFailed(`The provider of calls at ${new URL(url).host} does not answer. Try again, or go on in writing.`, "provider_unreachable");
  }
  if (!answer.ok) throw new CallFailed(`The provider does not connect the call (${answer.status}). Try again, or go on in writing.`, "provider_refused");
  await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
}

/** Wait until the provider can be told something. */
function untilOpen(peer, channel, signal) {
  return new Promise((resolve, reject) => {
    const listeners = new AbortController();
    const fail = (error) => { listeners.abort(); reject(error); };
    const timer = setTimeout(() => fail(new CallFailed(`No connection within ${CONNECT_SECONDS} s. A firewall may be in the way. Try again, or go on in writing.`, "connection_failed")), CONNECT_SECONDS * 1000);
    listeners.signal.addEventListener("abort", () => clearTimeout(timer));
    channel.addEventListener("open", () => { listeners.abort(); resolve(); }, { signal: listeners.signal });
    peer.addEventListener("connectionstatechange", () => {
      if (["failed", "closed"].includes(peer.connectionState)) fail(new CallFailed("The connection to the provider failed. Try again, or go on in writing.", "connection_failed"));
    }, { signal: listeners.signal });
    signal.addEventListener("abort", () => fail(signal.reason), { signal: listeners.signal });
    if (signal.aborted) fail(signal.reason);
    else if (channel.readyState === "open") { listeners.abort(); resolve(); }
  });
}
