// The end of a session: a question that need not be answered, and then what was kept, each with a way back.

import { get, path, post } from "./api.js";
import { make, put } from "./dom.js";
import { button, chip, link, problem } from "./widgets.js";
import { forget } from "./pages/memory.js";
import { asSentence, count } from "./format.js";

const ANSWERS = { y: "positive", n: "negative", s: null };
const LOOKS = 40;
const PAUSE = 500;

/** What a letter of the terminal's question means; undefined if it is none of them. */
export function answerOf(letter) {
  return ANSWERS[letter.toLowerCase()];
}

/** A card that asks how it was, ends the session, and shows its memory. `over()` is called at the end, `grown()` when there is more to see. */
export function endCard({ id, user, incognito, over, grown, cancel, signal, goOn = "Go on talking" }) {
  const card = emptyCard();
  const end = (feedback) => async () => {
    const done = await post(path`/sessions/${id}/end`, { feedback });
    over();
    card.focus({ preventScroll: true }); // the button that had it is gone
    if (incognito || !done.episode) put(card, ...nothing(incognito));
    else await showKept(card, done.episode, user, signal);
    grown();
  };
  put(card, make("h2.minor", {}, "Before you go: did this help?"),
    make("p.quiet.small", {}, incognito ? "Nothing of this chat is kept." : "Only your yes or no is kept, never a word of yours. You need not answer."),
    make("div.row.near", {},
      button("button.main", "Yes", end("positive")), button("button", "No", end("negative")), button("button", "Skip", end(null)),
      make("button.plain", { type: "button", onclick: cancel }, goOn)));
  return { card, end };
}

/** A card that shows what is kept of an episode that has ended already; `grown()` is called when it does. */
export function endedCard({ episode, user, incognito, grown, signal }) {
  const card = emptyCard();
  if (incognito || !episode) put(card, ...nothing(incognito));
  else showKept(card, episode, user, signal).then(grown, (error) => put(card, problem(error)));
  return card;
}

function emptyCard() {
  return make("section.card.stack", { "aria-label": "End of the session", role: "group", "aria-live": "polite", tabindex: "-1" });
}

function nothing(incognito) {
  return [make("h2.minor", {}, "The session has ended"),
    make("p", {}, incognito ? "Nothing of it was kept." : "There was no session to end."),
    make("div.row.near", {}, link("/studio/threads?new", "Begin another", { class: "button" }))];
}

async function showKept(card, episode, user, signal) {
  put(card, make("h2.minor", {}, "The session has ended"), make("p.quiet", { role: "status" }, "Keeping what is worth it…"));
  for (let look = 0; look < LOOKS && !signal.aborted; look += 1) {
    const left = await get(path`/episodes/${episode}`, undefined, signal);
    if (left.status === "ended") {
      put(card, ...memoryOf(left, user, () => { card.focus({ preventScroll: true }); return showKept(card, episode, user, signal); }));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  put(card, make("h2.minor", {}, "The session has ended"), make("p.quiet", {}, "What it leaves behind is made in the background."));
}

function memoryOf(left, user, again) {
  const learned = [...left.rules.map((rule) => [rule, rule.text]), ...left.facts.map((fact) => [fact, fact.says])];
  return [
    make("h2.minor", {}, `The session has ended after ${count(left.turns, "turn")}`),
    left.summary && make("p", {}, asSentence(left.summary)),
    left.themes.length > 0 && make("div.row.near", {}, left.themes.map((theme) => chip(theme, "accent"))),
    left.open_loops.length > 0 && make("p.small.quiet", {}, `Still open: ${left.open_loops.join("; ")}`),
    make("h3", {}, learned.length ? "What is remembered of it" : "Nothing new is remembered."),
    learned.length > 0 && make("ul.stack.tight", {}, learned.map(([entry, said]) => make("li.row.apart.near", {},
      make("span.grow", {}, said),
      button("button.small", "Do not keep", async () => { if (await forget(entry, user)) await again(); }, { "aria-label": `Do not keep: ${said}` })))),
    make("div.row.near", {},
      link("/studio/threads?new", "Begin another", { class: "button" }), link(`/studio/memory?${new URLSearchParams(user)}`, "All that is remembered")),
  ];
}
