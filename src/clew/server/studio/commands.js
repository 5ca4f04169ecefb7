// What can be typed behind a slash, as in the terminal: which commands there are, and what a typing error meant.

export const COMMANDS = {
  "/help": ["", "this list"],
  "/status": ["", "thread, user, session, model"],
  "/history": ["", "what was said, from its beginning"],
  "/memory": ["[recall on|off]", "what is remembered, and whether it may be brought up"],
  "/forget": ["WORDS", "forget it, after a yes"],
  "/undo": ["[turn]", "undo what memory did last, or the last turn"],
  "/search": ["WORDS", "find what was said or is known"],
  "/export": ["", "save this thread as an archive"],
  "/threads": ["", "your threads, newest first"],
  "/resume": ["ID", "go on with a thread"],
  "/new": ["[ID]", "begin another thread"],
  "/feedback": ["y|n", "say whether it helps so far; the session goes on"],
  "/end": ["[y|n|s]", "end this session"],
  "/exit": ["", "leave"],
};
const ALIASES = { "/quit": "/exit", "/q": "/exit", "/?": "/help" };
const CLOSE = 2;

/** The command that a line is, and the words behind it; null if it is a message. A path is a message. */
export function parsed(line) {
  const [first, ...words] = line.split(/\s+/);
  const name = first.toLowerCase();
  if (!(name in ALIASES) && !/^\/[a-z]+$/.test(name)) return null;
  return { name: ALIASES[name] ?? name, words };
}

/** What to say of a command that there is not. */
export function unknown(name) {
  const names = Object.keys(COMMANDS);
  const meant = names.find((each) => each.startsWith(name)) ?? names.find((each) => distance(each, name) <= CLOSE);
  return meant ? `${name}? Did you mean ${meant}?` : `There is no ${name}. /help lists what there is.`;
}

/** How many letters have to be changed, put in or left out. */
function distance(one, other) {
  let row = [...other, ""].map((_, index) => index);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[other.length];
}
