// The provider's end of a call, in the page itself: a second peer connection that speaks the provider's protocol.
() => {
  const provider = window.provider = { received: [], microphones: [], peer: null, channel: null };
  const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wishes) => {
    const stream = await open(wishes);
    provider.microphones.push(...stream.getTracks());
    return stream;
  };

  /** Answer the description of a connection; what is sent from then on is kept. */
  provider.answer = async (sdp) => {
    const peer = provider.peer = new RTCPeerConnection();
    peer.addEventListener("datachannel", ({ channel }) => {
      provider.channel = channel;
      channel.addEventListener("message", ({ data }) => provider.received.push(JSON.parse(data)));
    });
    await peer.setRemoteDescription({ type: "offer", sdp });
    const voice = new AudioContext().createMediaStreamDestination();
    peer.addTrack(voice.stream.getTracks()[0], voice.stream);
    await peer.setLocalDescription(await peer.createAnswer());
    while (peer.iceGatheringState !== "complete") await new Promise((resolve) => peer.addEventListener("icegatheringstatechange", resolve, { once: true }));
    return peer.localDescription.sdp;
  };

  /** Send events of the provider. */
  provider.tell = (...events) => events.forEach((event) => provider.channel.send(JSON.stringify(event)));

  /** How many bytes of sound have come from the microphone. */
  provider.bytesHeard = async () => [...(await provider.peer.getStats()).values()]
    .filter((report) => report.type === "inbound-rtp" && report.kind === "audio").reduce((sum, report) => sum + report.bytesReceived, 0);
}
