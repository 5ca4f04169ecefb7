// Elements made from their names, properties and children. Text is always text: nothing is ever parsed as HTML.

import { at } from "./urls.js";

const SVG = "http://www.w3.org/2000/svg";
const TEXTS = new Set(["a", "blockquote", "caption", "dd", "h1", "h2", "h3", "option", "p", "pre", "td", "textarea"]);
const FIELDS = new Set(["text", "search"]);

/** An element: make("button.main", {onclick}, "Send"). Properties that are null or false are left out. */
export function make(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  // People write in both directions, and any text may be theirs or name something of theirs.
  if (TEXTS.has(tag) || FIELDS.has(properties.type)) element.dir = "auto";
  return fill(element, classes, properties, children);
}

/** An element of a drawing. */
export function draw(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  return fill(document.createElementNS(SVG, tag), classes, properties, children);
}

function fill(element, classes, properties, children) {
  if (classes.length) element.classList.add(...classes);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "href") element.setAttribute(key, at(value));
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

/** Put children behind those that are there; what is null or false is left out. */
export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
  return element;
}

/** Put children in the place of those that are there. */
export function put(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

/** A name that no other element of the page has. */
export function freshId(prefix) {
  freshId.count = (freshId.count || 0) + 1;
  return `${prefix}-${freshId.count}`;
}
