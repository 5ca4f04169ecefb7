// A call from a browser: the handshake with a realtime provider, and every utterance judged before it is answered.
//
//   const call = await Call.begin({ server, thread, user, shown: console.log });
//   …
//   await call.end();
//
// `server` is {post(where, body, key)}, which sends to Clew. The provider's key never comes here: the server
// gives a secret that is good for one call. Pages need a content policy that lets them reach the provider.

const TRANSCRIBED = "conversation.item.input_audio_transcription.completed";
const UNHEARD = "conversation.item.input_audio_transcription.failed";
const REPLIED = ["response.output_audio_transcript.done", "response.output_text.done"];
const ALIVE_SECONDS = 60;
const UNSAFE = "What you said could not be checked just now, so it is not answered. If you are in danger, call your emergency number.";
const UNKEPT = "Part of what was said could not be kept.";

/** A call on a thread. `shown({kind, text})` gets each utterance: you, reply, careful, problem. */
export class Call {
  constructor({ server, thread, user, mode, shown, peer, channel, gated }) {
    Object.assign(this, { server, thread, user, mode, shown, peer, channel, gated });
    this.path = `/sessions/${encodeURIComponent(thread)}/voice`;
    this.turn = null;
    this.unkept = [];
    this.isOver = false;
    channel.addEventListener("message", ({ data }) => this.hear(JSON.parse(data)));
    peer.addEventListener("connectionstatechange", () => { if (["failed", "closed"].includes(peer.connectionState)) this.lost(); });
    this.timer = setInterval(() => this.alive(), (ALIVE_SECONDS * 1000) / 2);
  }

  /** Ask the server for a secret, and the provider for a connection. */
  static async begin({ server, thread, user = undefined, mode = undefined, gated = true, shown, microphone, play, connection = () => new RTCPeerConnection(), send = fetch }) {
    const begun = await server.post(`/sessions/${encodeURIComponent(thread)}/voice/session`, { gated, user, mode });
    const peer = connection();
    peer.addEventListener("track", (event) => play?.(event.streams[0]));
    for (const track of (await microphone()).getTracks()) peer.addTrack(track);
    const channel = peer.createDataChannel("oai-events");
    const call = new Call({ server, thread, user, mode, shown, peer, channel, gated: begun.gated });
    try {
      const offer = await peer.createOffer();
      await peer.setLocalDescription(offer);
      const answer = await send(begun.url, { method: "POST", body: offer.sdp, headers: { Authorization: `Bearer ${begun.secret}`, "Content-Type": "application/sdp" } });
      if (!answer.ok) throw new Error(`The provider does not connect the call (${answer.status}).`);
      await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    } catch (error) {
      call.close();
      throw error;
    }
    return call;
  }

  /** One event of the provider. */
  async hear(event) {
    if (event.type === TRANSCRIBED) await this.judge(event.item_id, event.transcript);
    else if (event.type === UNHEARD) this.unjudged();
    else if (event.type === "response.function_call_arguments.done") await this.use(event);
    else if (REPLIED.includes(event.type)) await this.replied(event.transcript ?? event.text);
  }

  /** Have an utterance judged. Only then is it answered; if it must not be, fixed words are said instead. */
  async judge(id, said) {
    const last = this.turn;
    this.turn = { id, said, replied: "", calls: [], heard: false, fixed: "" };
    const turn = this.turn;
    this.shown({ kind: "you", text: said });
    let found;
    try {
      await this.keep(last);
      found = await this.server.post(`${this.path}/heard`, { id, said, late: !this.gated, user: this.user, mode: this.mode });
    } catch {
      this.unjudged();
      return;
    }
    turn.heard = true;
    if (found.release) {
      if (this.gated) this.say({ type: "response.create" });
      return;
    }
    turn.fixed = found.say;
    this.silence();
    this.shown({ kind: "careful", text: found.say });
    this.say({ type: "response.create", response: { tool_choice: "none", instructions: `Say exactly these words, calmly, and nothing else:\n\n${found.say}` } });
  }

  /** An utterance that could not be judged is not answered, and a notice says so. */
  unjudged() {
    this.silence();
    this.shown({ kind: "problem", text: UNSAFE });
  }

  /** Stop an answer that is under way. */
  silence() {
    if (this.gated) return;
    this.say({ type: "response.cancel" });
    this.say({ type: "output_audio_buffer.clear" });
  }

  /** Call a tool for the model, here once however often it is asked for. */
  async use({ call_id: id, name, arguments: given }) {
    let output;
    try {
      output = (await this.server.post(`${this.path}/tools`, { id, name, arguments: JSON.parse(given || "{}"), user: this.user, mode: this.mode })).output;
    } catch (error) {
      output = { error: error.message };
    }
    this.turn?.calls.push({ id, name, arguments: JSON.parse(given || "{}"), output });
    this.say({ type: "conversation.item.create", item: { type: "function_call_output", call_id: id, output: JSON.stringify(output) } });
    this.say({ type: "response.create" });
  }

  async replied(text) {
    const turn = this.turn ??= { id: crypto.randomUUID(), said: "", replied: "", calls: [], heard: true, fixed: "" };
    turn.replied = turn.fixed || [turn.replied, text].filter(Boolean).join(" ");
    if (!turn.fixed) this.shown({ kind: "reply", text });
    await this.keep();
  }

  /** Let the server keep the turn, and those before it that it could not. An id is a key: each is kept once. */
  async keep(turn = this.turn) {
    if (turn) this.unkept.push(turn);
    if (turn === this.turn) this.turn = null;
    for (const each of [...this.unkept]) {
      const body = { said: each.said, replied: each.replied, heard: each.heard, tool_calls: each.calls, user: this.user, mode: this.mode };
      try {
        await this.server.post(this.path, body, each.id);
        this.unkept = this.unkept.filter((other) => other !== each);
      } catch {
        // it is sent again with the next turn; until then it withholds no judgement and no answer
      }
    }
  }

  /** What is kept last, when the call is over. */
  async keepAll() {
    await this.keep();
    if (this.unkept.length) this.shown({ kind: "problem", text: UNKEPT });
  }

  alive() {
    this.server.post(`${this.path}/alive`, { seconds: ALIVE_SECONDS }).catch(() => {}); // the next sign may come through
  }

  say(event) {
    this.channel.send(JSON.stringify(event));
  }

  close() {
    this.isOver = true;
    clearInterval(this.timer);
    this.channel.close();
    this.peer.close();
  }

  /** The connection is gone: so is the call, and its session ends. */
  async lost() {
    if (this.isOver) return;
    this.close();
    await this.keepAll();
    await this.server.post(`${this.path}/lost`, {});
  }

  /** Hang up, and end the session by the same path as text. */
  async end(feedback = null) {
    if (this.isOver) return null;
    this.close();
    await this.keepAll();
    return this.server.post(`/sessions/${encodeURIComponent(this.thread)}/end`, { feedback });
  }
}
