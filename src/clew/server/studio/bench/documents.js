// Documents: give one to the thread, see how each is, choose the active one, take one off.

import { get, path, post, put as replace, request } from "../api.js";
import { make, put } from "../dom.js";
import { icon } from "../icons.js";
import { ask, button, chip, empty, tell } from "../widgets.js";
import { bytes, count } from "../format.js";
import { Reader } from "./reader.js";

const CONDITIONS = {
  changed: ["changed since it was loaded", "warn"],
  missing: ["its file is gone", "bad"],
  unknown: ["not checked", ""],
};
const KINDS = ".pdf,.html,.htm,.md,.markdown,.txt,.csv,.json,text/*";

export async function showDocuments(bench, { read = null } = {}) {
  const { id, signal, panel } = bench;
  const place = make("div.stack", {});
  const list = make("div", {});
  const reader = new Reader(id, signal);
  const load = async () => {
    const shelf = await get(path`/threads/${id}/documents`, undefined, signal);
    put(list, shelf.documents.length === 0
      ? empty("No documents yet", "Give the thread a PDF, an HTML page, Markdown or plain text. The assistant reads parts of it as it needs them.")
      : make("ul.list", {}, shelf.documents.map((each) => row(each, each.path === shelf.active, acts))));
    return shelf;
  };
  const acts = {
    read: (document) => reader.open(document),
    switch: async (document) => {
      await replace(path`/threads/${id}/documents/active`, { path: document.path });
      await load();
    },
    again: async (document) => {
      await post(path`/threads/${id}/documents/load`, { path: document.path });
      tell(`${document.name} was loaded again.`);
      await load();
    },
    unload: async (document) => { if (await unload(id, document)) { reader.close(document); await load(); } },
  };
  put(place, adding(id, load), list, reader.element);
  put(panel, place);
  const shelf = await load();
  const wanted = shelf.documents.find((each) => each.path === read);
  if (wanted) await reader.open(wanted);
}

function adding(id, load) {
  const file = make("input", { type: "file", accept: KINDS, hidden: true });
  const choose = make("button.main", { type: "button", onclick: () => file.click() }, icon("plus"), "Add a document");
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    choose.disabled = true;
    put(choose, icon("plus"), "Reading…");
    try {
      const answer = await request("POST", path`/threads/${id}/documents`, {
        parameters: { name: chosen.name }, body: chosen, headers: { "Idempotency-Key": crypto.randomUUID() },
      });
      tell(`${(await answer.json()).name} is loaded.`);
      await load();
    } catch (error) {
      tell(error);
    } finally {
      file.value = "";
      choose.disabled = false;
      put(choose, icon("plus"), "Add a document");
    }
  });
  return make("div.row.apart", {}, make("p.quiet", {}, "PDF, HTML, Markdown or plain text."), file, choose);
}

function row(document, active, acts) {
  const [said, kind] = CONDITIONS[document.condition] ?? [];
  const size = [bytes(document.size), count(document.characters, "character"), document.sections > 0 && count(document.sections, "section")];
  const name = { "aria-label": document.name };
  return make("li.stack.tight", {},
    make("div.row.apart.near", {},
      make("h2.name", {}, document.name),
      make("div.row.near", {}, active && chip("active", "accent"), said && chip(said, kind))),
    make("p.small.quiet", {}, size.filter(Boolean).join(" · ")),
    document.notes.map((note) => make("p.small.quiet", {}, note)),
    make("div.row.near", {},
      document.condition !== "changed" && document.condition !== "missing" && button("button.small", "Read", () => acts.read(document), { "aria-label": `Read ${name["aria-label"]}` }),
      document.condition === "changed" && button("button.small", "Load again", () => acts.again(document), { "aria-label": `Load ${document.name} again` }),
      !active && button("button.small", "Make active", () => acts.switch(document), { "aria-label": `Make ${document.name} active` }),
      button("button.small", "Unload", () => acts.unload(document), { "aria-label": `Unload ${document.name}` })));
}

function unload(id, document) {
  return ask({
    title: "Unload this document?",
    parts: [make("p", {}, `${document.name} is taken off this thread. Its file stays on the volume, where earlier versions of the thread find it.`)],
    yes: "Unload",
    send: () => request("DELETE", path`/threads/${id}/documents`, { parameters: { path: document.path } }),
  });
}
