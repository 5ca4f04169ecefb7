// Messages that are not sent yet, kept in this browser by user and thread. Incognito chats have none.

const DRAFTS = "clew-drafts";
const MOST = 50;
const LONGEST = 20_000;

/** A message to one thread: what is written, and what is being sent and not acknowledged. */
export class Draft {
  constructor(user, thread) {
    this.name = JSON.stringify([user ?? null, thread]);
  }

  /** What was left behind: {text, sending}; `sending` is {text, key} of a message that may or may not have arrived. */
  read() {
    return { text: "", sending: null, ...all()[this.name] };
  }

  write(text) {
    this.keep({ ...this.read(), text });
  }

  /** Keep a message until the server has it. With its key it can be sent again, and arrives once. */
  beginSending(text, key) {
    this.keep({ text: "", sending: { text, key } });
  }

  endSending() {
    this.keep({ ...this.read(), sending: null });
  }

  keep({ text, sending }) {
    const drafts = all();
    delete drafts[this.name];
    if (text.trim() || sending) drafts[this.name] = { text: text.slice(0, LONGEST), sending, time: Date.now() };
    const newest = Object.entries(drafts).slice(-MOST); // the oldest come first
    try {
      localStorage.setItem(DRAFTS, JSON.stringify(Object.fromEntries(newest)));
    } catch {
      // The browser keeps no more. What is written is still in the box.
    }
  }
}

/** What a user has written and not sent, the newest first: [{thread, text, time}]. */
export function draftsOf(user) {
  return Object.entries(all())
    .map(([name, { text, sending, time }]) => ({ whose: JSON.parse(name), text: text || sending?.text || "", time }))
    .filter(({ whose }) => whose[0] === (user ?? null))
    .map(({ whose, text, time }) => ({ thread: whose[1], text, time }))
    .reverse();
}

function all() {
  try {
    return JSON.parse(localStorage.getItem(DRAFTS)) ?? {};
  } catch {
    return {}; // another program of this address has put something else there
  }
}
