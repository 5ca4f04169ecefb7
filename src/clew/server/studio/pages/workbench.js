// The workbench of a thread: its core memory, its documents, what it made, and the files on its volume.

import { freshId, make, put } from "../dom.js";
import { icon } from "../icons.js";
import { empty, link, problem, tabs, threadAt } from "../widgets.js";
import { showArtifacts } from "../bench/artifacts.js";
import { showBlocks } from "../bench/blocks.js";
import { showDocuments } from "../bench/documents.js";
import { showFiles } from "../bench/files.js";

const PARTS = { documents: "Documents", memory: "Core memory", artifacts: "Artifacts", files: "Files" };
const SHOW = { documents: showDocuments, memory: showBlocks, artifacts: showArtifacts, files: showFiles };
const NO_VOLUME = "This server has no volume";

export async function workbench({ place, id, query, signal, go }) {
  const panel = make("div.stack", { role: "tabpanel", id: freshId("panel"), tabindex: "0" });
  let shown = SHOW[query.get("part")] ? query.get("part") : "documents";
  const bench = { id, signal, panel, choose: (part, more) => choose(part, more) };

  let isEdited = false; // somebody writes into a part, which must not be drawn anew under their hands
  panel.addEventListener("input", () => { isEdited = true; });

  async function choose(part, more = {}) {
    shown = part;
    isEdited = false;
    choice.choose(part, true);
    panel.setAttribute("aria-labelledby", choice.tab(part).id);
    go(`?part=${part}`, null, { replace: true });
    try {
      await SHOW[part](bench, more);
    } catch (error) {
      if (signal.aborted) return;
      put(panel, error.message.startsWith(NO_VOLUME) ? empty("No volume", error.message) : problem(error));
    }
  }

  const choice = tabs("Parts of the workbench", PARTS, shown, (part) => choose(part), panel.id);
  put(place, make("div.page.bench", {},
    make("div.stack", {},
      make("div.row.apart", {}, make("h1", {}, "Workbench"), link(threadAt(id), [icon("back"), "To the thread"], { class: "button" })),
      make("p.quiet.cut", {}, `Of the thread ${id}`)),
    choice.element, panel));
  await choose(shown);
  return () => isEdited || choose(shown);
}
