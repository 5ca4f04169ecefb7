// Numbers and addresses in fixed words, as links: a person in danger touches one and is connected.

import { make } from "../../dom.js";

const ADDRESS = /\b(?:https?:\/\/|www\.)[^\s()<>]*[^\s()<>.,;:!?]/gi;
const NUMBER = /(?<![\w.])[+*]?\d(?:[\d -]{0,18}\d)(?![\w])/g; // 15, 988, 116 123, 0120-061-338, *4141

/** A text with its numbers and addresses as links, in parts. */
export function linked(text) {
  const found = [...text.matchAll(ADDRESS)].map((match) => part(match, address(match[0])));
  const taken = (at) => found.some(({ from, to }) => at >= from && at < to);
  for (const match of text.matchAll(NUMBER)) {
    if (!taken(match.index)) found.push(part(match, `tel:${match[0].replace(/[ -]/g, "")}`));
  }
  found.sort((one, other) => one.from - other.from);
  return cut(text, found);
}

function part(match, where) {
  return { from: match.index, to: match.index + match[0].length, where };
}

function address(said) {
  return /^https?:/i.test(said) ? said : `https://${said}`;
}

function cut(text, found) {
  const parts = [];
  let at = 0;
  for (const { from, to, where } of found) {
    parts.push(text.slice(at, from), link(text.slice(from, to), where));
    at = to;
  }
  return [...parts, text.slice(at)];
}

function link(said, where) {
  return make("a", where.startsWith("tel:") ? { href: where } : { href: where, target: "_blank", rel: "noopener noreferrer" }, said);
}
