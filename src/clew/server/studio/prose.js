// What a model wrote, with the marks that models use: bold, italic, code, headings, lists, tables. Links and HTML stay text.

import { make } from "./dom.js";

const FENCE = /^\s*(`{3,}|~{3,})/;
const HEADING = /^#{1,6}\s+(.*\S)/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,3})[.)])\s+(.*\S)/;
const RULE = /^\s*\|?\s*:?-{1,}:?\s*(?:\|\s*:?-{1,}:?\s*)*\|?\s*$/;
const MARKED = /`([^`\n]+)`|\*\*(?=\S)([^\n]{1,400}?)(?<=\S)\*\*|(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])|(?<![\w_])_(?=\S)([^_\n]+?)(?<=\S)_(?![\w_])/g;

/** A text in parts: words as they are, and elements for what is marked. */
export function prose(text) {
  const parts = [];
  const lines = text.split("\n");
  let words = [];
  function flush() {
    const said = words.join("\n").replace(/^\n+|\n+$/g, "");
    if (said) parts.push(make("span", {}, marked(said)));
    words = [];
  }
  for (let at = 0; at < lines.length;) {
    const block = [fenced, tabled, listed, headed].reduce((found, read) => found ?? read(lines, at), null);
    if (block) {
      flush();
      parts.push(block.element);
    } else {
      words.push(lines[at]);
    }
    at = block?.next ?? at + 1;
  }
  flush();
  return parts;
}

/** Code between fences, or to the end while it is still being written. */
function fenced(lines, at) {
  const fence = FENCE.exec(lines[at])?.[1];
  if (!fence) return null;
  const after = lines.slice(at + 1);
  const length = after.findIndex((line) => line.trim().startsWith(fence));
  const code = length < 0 ? after : after.slice(0, length);
  return { element: make("pre", { dir: "ltr" }, make("code", {}, code.join("\n"))), next: at + code.length + 2 };
}

/** A table: a row of names, a row of dashes that says how many columns there are, and rows to the first line without a bar. */
function tabled(lines, at) {
  const names = cellsOf(lines[at]);
  const rule = lines[at + 1] ?? "";
  if (!lines[at].includes("|") || !rule.includes("-") || !RULE.test(rule) || cellsOf(rule).length !== names.length) return null;
  const sides = cellsOf(rule).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? ".center" : ".right") : ""));
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|")) next += 1;
  const row = (line) => make("tr", {}, names.map((_, index) => make(`td${sides[index]}`, {}, marked(cellsOf(line)[index] ?? ""))));
  const table = make("table", {},
    make("thead", {}, make("tr", {}, names.map((name, index) => make(`th${sides[index]}`, { scope: "col", dir: "auto" }, marked(name))))),
    make("tbody", {}, lines.slice(at + 2, next).map(row)));
  return { element: make("div.scroll-x", { tabindex: "0", role: "region", "aria-label": "Table" }, table), next };
}

/** The cells of a row. A bar behind a backslash is a bar. */
function cellsOf(line) {
  const inside = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** A list: its items, each with the lines below it that are set in; empty lines between items are left out. */
function listed(lines, at) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const isNumbered = first[2] !== undefined;
  const items = [];
  let next = at;
  for (let here = at; here < lines.length; here += 1) {
    const item = ITEM.exec(lines[here]);
    const isDeep = item ? item[1].length > first[1].length : /^\s+\S/.test(lines[here]);
    if (item && (isDeep || (item[2] !== undefined) === isNumbered)) items.push({ isDeep, said: item[3] });
    else if (!item && isDeep) items.at(-1).said += `\n${lines[here].trim()}`;
    else if (lines[here].trim()) break;
    else continue;
    next = here + 1;
  }
  let number = Number(first[2]);
  const made = items.map(({ isDeep, said }) => (isDeep
    ? make("li.deep", { dir: "auto" }, marked(said))
    : make("li", { dir: "auto", ...(isNumbered ? { value: number++ } : {}) }, marked(said))));
  return { element: make(isNumbered ? "ol" : "ul", {}, made), next };
}

function headed(lines, at) {
  const said = HEADING.exec(lines[at])?.[1];
  return said ? { element: make("p", {}, make("strong", {}, marked(said.replaceAll("**", "")))), next: at + 1 } : null;
}

/** Words with what is bold, italic or code among them. */
function marked(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(MARKED)) {
    const [whole, code, strong, ...soft] = found;
    const said = code ?? strong ?? soft.find(Boolean);
    parts.push(text.slice(at, found.index), make(code ? "code" : strong ? "strong" : "em", {}, said));
    at = found.index + whole.length;
  }
  return [...parts, text.slice(at)];
}
