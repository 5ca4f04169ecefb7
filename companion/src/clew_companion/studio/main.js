// The companion's messages in the Studio: fixed words for a person in danger, and the steps of an exercise.

import { make } from "../../dom.js";
import { linked } from "./contacts.js";

const CAREFUL = ["crisis_response", "safety_check"]; // fixed words with places to call

/** Fixed words for somebody in danger stand out, and their numbers are links. */
export function decorate(message) {
  const careful = message.role === "assistant" && CAREFUL.includes(message.meta?.response_style);
  return { careful, above: exerciseOf(message), ...(careful && { said: linked(message.text) }) };
}

/** Where an exercise stands, if the message leads through one. */
function exerciseOf({ meta }) {
  const stands = meta?.exercise;
  if (!stands) return null;
  return make("div.row.near.small.quiet.exercise", {}, make("span", {}, `${stands.name} · step ${stands.step} of ${stands.steps}`),
    make("progress", { value: stands.step, max: stands.steps, "aria-label": `Step ${stands.step} of ${stands.steps}` }));
}
