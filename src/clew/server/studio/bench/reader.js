// Reading a document: part by part, from a section, or from the place of some words.

import { get, path } from "../api.js";
import { freshId, make, put } from "../dom.js";
import { icon } from "../icons.js";
import { button, field, problem, tell } from "../widgets.js";
import { count } from "../format.js";

const PART = 6000;
const PLACES = 20;

export class Reader {
  constructor(id, signal) {
    Object.assign(this, { id, signal, document: null });
    this.element = make("div", {});
  }

  async open(document) {
    this.document = document;
    this.text = make("div.reading", { tabindex: "0", role: "region", "aria-label": `Text of ${document.name}` });
    this.where = make("p.small.quiet", { role: "status" });
    this.places = make("div", {});
    this.back = button("button.small", [icon("back"), "Before"], () => this.show(Math.max(0, this.start - PART)));
    this.on = button("button.small", ["On", icon("next")], () => this.show(this.next));
    const heading = make("h2", { id: freshId("reader"), tabindex: "-1" }, document.name);
    const chooser = make("div", {});
    put(this.element, make("section.card.stack", { "aria-labelledby": heading.id },
      make("div.row.apart", {}, heading, button("button.small", "Close", async () => this.close(document))),
      make("div.row.foot-line", {}, chooser, this.finder()),
      this.places, this.text,
      make("div.row.apart", {}, this.where, make("div.row.near", {}, this.back, this.on))));
    await this.show(0);
    heading.focus();
    await this.chooseSection(chooser);
  }

  close(document) {
    if (this.document?.path === document.path) put(this.element);
  }

  async show(start) {
    let part;
    try {
      part = await get(path`/threads/${this.id}/documents/text`, { path: this.document.path, start, length: PART }, this.signal);
    } catch (error) {
      put(this.text, problem(error));
      return;
    }
    [this.start, this.next] = [part.start, part.next];
    put(this.text, part.text);
    this.text.scrollTop = 0;
    const end = part.next ?? part.characters;
    put(this.where, `${part.section ? `${part.section} · ` : ""}${part.start.toLocaleString("en")}–${end.toLocaleString("en")} of ${count(part.characters, "character")}`);
    setTimeout(() => { // a button frees itself once its work is done
      this.back.disabled = part.start === 0;
      this.on.disabled = part.next === null;
    });
  }

  async chooseSection(place) {
    const { sections } = await get(path`/threads/${this.id}/documents/sections`, { path: this.document.path }, this.signal);
    if (sections.length < 2) return;
    const choice = make("select", {}, sections.map((each) => make("option", { value: String(each.start) }, each.name)));
    choice.addEventListener("change", () => this.show(Number(choice.value)).catch(tell));
    put(place, field("Section", choice));
  }

  finder() {
    const box = make("input", { type: "search", autocomplete: "off" });
    const form = make("form.row.near.foot-line.grow", {}, make("div.grow", {}, field("Find words", box)), make("button", { type: "submit" }, "Find"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.find(box.value.trim()).catch((error) => put(this.places, problem(error)));
    });
    return form;
  }

  async find(words) {
    if (!words) {
      put(this.places);
      return;
    }
    const found = await get(path`/threads/${this.id}/documents/find`, { path: this.document.path, words, limit: PLACES }, this.signal);
    put(this.places, found.places.length === 0
      ? make("p.quiet", { role: "status" }, "These words are not in it.")
      : make("ul.stack.tight", { "aria-label": "Places of the words" }, found.places.map((place) => make("li", {},
        make("button.plain.place", { type: "button", onclick: () => this.show(place.start).then(() => this.text.focus(), tell) },
          place.section && make("span.small.quiet", {}, place.section), make("span", {}, marked(place)))))));
  }
}

/** An excerpt with the found words marked. */
function marked({ excerpt, marks }) {
  const letters = [...excerpt]; // the server counts characters, not halves of pairs
  const parts = [];
  let end = 0;
  for (const [first, last] of marks) {
    parts.push(letters.slice(end, first).join(""), make("mark", {}, letters.slice(first, last).join("")));
    end = last;
  }
  return [...parts, letters.slice(end).join("")];
}
