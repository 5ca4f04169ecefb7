// The connection to the server: whether it answers, and what is done when it answers again.

import { API } from "./urls.js";

const PAUSES = [500, 1000, 2000, 4000];
const LOST = "lost";
const BACK = "back";
const bell = new EventTarget();
let isLost = false;
let tries = 0;
let timer = 0;

/** Note that a request found no server. From now on it is asked for until it answers. */
export function noteLoss() {
  if (isLost) return;
  isLost = true;
  tries = 0;
  bell.dispatchEvent(new Event(LOST));
  later();
}

/** Note that the server has answered something, whatever it was. */
export function noteAnswer() {
  if (!isLost) return;
  isLost = false;
  clearTimeout(timer);
  bell.dispatchEvent(new Event(BACK));
}

/** Do something when the server is lost, and something when it is back. */
export function followConnection({ lost, back }) {
  bell.addEventListener(LOST, lost);
  bell.addEventListener(BACK, back);
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(look, PAUSES[Math.min(tries, PAUSES.length - 1)]);
  tries += 1;
}

/** Ask whether it is there. A proxy may answer in its place, so only a good answer counts. */
async function look() {
  clearTimeout(timer);
  try {
    const response = await fetch(`${API}/health`, { cache: "no-store" });
    if (response.ok) return noteAnswer();
  } catch {
    // it is not there yet
  }
  noteLoss();
  return later();
}

addEventListener("online", look); // the network has changed: no need to wait
addEventListener("offline", look); // which need not be the server’s
document.addEventListener("visibilitychange", () => { if (isLost && !document.hidden) look(); });
