// The companion's messages in the Studio: fixed words for a person in danger, and the steps of an exercise.

import { make } from "../../dom.js";
import { linked } from "./contacts.js";

const CAREFUL = ["crisis_response", "safety_check"]; // fixed words with places to call

/** Highlight fixed words for a person in danger, with their numbers as links. */
export function decorate(message) {
  const careful = message.role === "assistant" && (CAREFUL.includes(message.meta?.response_style) || message.meta?.fixed === true);
  return { careful, above: exerciseOf(message), ...(careful && { said: linked(message.text) }) };
}

/** The progress of an exercise, if the message leads through one. */
function exerciseOf({ meta }) {
  const progress = meta?.exercise;
  if (!progress) return null;
  return make("div.row.near.small.quiet.exercise", {}, make("span", {}, `${progress.name} · step ${progress.step} of ${progress.steps}`),
    make("progress", { value: progress.step, max: progress.steps, "aria-label": `Step ${progress.step} of ${progress.steps}` }));
}
