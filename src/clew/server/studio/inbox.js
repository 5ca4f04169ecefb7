// How many calls wait for a person: counted now and again, and as soon as something here may have changed it.

import { get } from "./api.js";
import { every } from "./widgets.js";

const MOST = 50;
const LOOK_AGAIN = 5000;
const SETTLE = 250;
const NUDGE = "clew-inbox";
const bell = new EventTarget();

/** Let the number be counted soon: something has happened that may have changed it. */
export function nudgeInbox() {
  bell.dispatchEvent(new Event(NUDGE));
}

/** Count what waits as long as the Studio is open; `show(number, hasMore)` gets each count. */
export function followInbox(show) {
  let timer = 0;
  let isRefused = false; // who is asking may not see it: nobody asks again and again
  async function count() {
    try {
      const page = await get("/approvals", { limit: MOST });
      show(page.approvals.length, page.next !== null);
    } catch (error) {
      isRefused = error.status === 401 || error.status === 403; // the pages say what is wrong
    }
  }
  function soon() {
    clearTimeout(timer);
    timer = setTimeout(count, SETTLE);
  }
  bell.addEventListener(NUDGE, soon);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
  every(LOOK_AGAIN, () => isRefused || count());
  count();
}
