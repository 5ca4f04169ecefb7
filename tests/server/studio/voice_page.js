// A stand-in for the browser's connection and for the provider behind it, with the real server on the other side.
async ({ thread, user, gated, wrong }) => {
  const { Call } = await import("/studio/voice.js");
  const seen = { said: [], sent: [], offered: null, wrong };
  const channel = Object.assign(new EventTarget(), { send: (text) => seen.sent.push(JSON.parse(text)), close: () => { seen.closed = true; } });
  const peer = Object.assign(new EventTarget(), {
    connectionState: "new",
    addTrack: () => {},
    createDataChannel: () => channel,
    createOffer: async () => ({ type: "offer", sdp: "v=0 offer" }),
    setLocalDescription: async () => {},
    setRemoteDescription: async (answer) => { seen.remote = answer.sdp; },
    close: () => {},
  });
  const server = {
    async post(where, body, key) {
      if (seen.wrong && where.endsWith(seen.wrong)) throw new Error("it is down");
      const answer = await fetch(`/api/v1${where}`, {
        method: "POST", body: JSON.stringify(body),
        headers: { "Content-Type": "application/json", "X-Clew-User": user, ...(key ? { "Idempotency-Key": key } : {}) },
      });
      if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
      return answer.json();
    },
  };
  const call = await Call.begin({
    server, thread, gated,
    shown: (event) => seen.said.push(event),
    microphone: async () => ({ getTracks: () => [{}] }),
    connection: () => peer,
    send: async (url, { body, headers }) => { seen.offered = { url, body, secret: headers.Authorization }; return new Response("v=0 answer"); },
  });
  window.tell = (event) => call.hear(event);
  window.hangUp = (feedback) => call.end(feedback);
  window.drop = async () => { peer.connectionState = "failed"; peer.dispatchEvent(new Event("connectionstatechange")); };
  window.seen = seen;
}
