// Core memory: short texts that the model always has before it, each to be written anew by a person.

import { get, path, request } from "../api.js";
import { freshId, make, put } from "../dom.js";
import { button, tell } from "../widgets.js";

const ABOUT = {
  human: "What the assistant always knows of the person.",
  persona: "Who the assistant is.",
  scratchpad: "What it notes for itself while it works.",
};

export async function showBlocks({ id, signal, panel }) {
  const memory = await get(path`/threads/${id}/core-memory`, undefined, signal);
  put(panel, memory.blocks.map((block) => card(id, block, memory.version)));
}

function card(id, block, version) {
  let saved = block.text;
  let seen = version;
  const box = make("textarea", { id: freshId("block"), rows: "4", value: block.text });
  const size = make("span.small.quiet", { id: freshId("size") });
  box.setAttribute("aria-describedby", size.id);
  const save = button("button.main", "Save", async () => {
    const done = await request("PUT", path`/threads/${id}/core-memory/${block.name}`, { body: { text: box.value }, headers: { "If-Match": `"${seen}"` } });
    [saved, seen] = [box.value, (await done.json()).version];
    tell("Saved.");
    setTimeout(changed);
  });
  const back = button("button", "Take back", async () => {
    box.value = saved;
    setTimeout(changed);
  });
  function changed() {
    const count = [...box.value].length;
    const over = count > block.limit;
    put(size, `${count.toLocaleString("en")} of ${block.limit.toLocaleString("en")} characters`);
    size.classList.toggle("over", over);
    box.setAttribute("aria-invalid", String(over));
    save.disabled = over || box.value === saved;
    back.disabled = box.value === saved;
  }
  box.addEventListener("input", changed);
  changed();
  return make("section.card.stack.block", { "aria-labelledby": `${box.id}-name` },
    make("div.stack.tight", {},
      make("h2", { id: `${box.id}-name` }, make("label", { for: box.id }, block.name)),
      ABOUT[block.name] && make("p.small.quiet", {}, ABOUT[block.name])),
    box,
    make("div.row.apart", {}, size, make("div.row.near", {}, back, save)));
}
