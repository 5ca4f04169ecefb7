// The volume: every file that lasts, by its path; each may be loaded as a document.

import { get, path, post } from "../api.js";
import { make, put } from "../dom.js";
import { button, empty, tell, time } from "../widgets.js";
import { bytes } from "../format.js";

const PAGE = 100;

export async function showFiles(bench) {
  const { id, signal, panel } = bench;
  const list = make("ul.list", {});
  const foot = make("div.row", {});
  async function load(cursor) {
    const page = await get(path`/threads/${id}/volume`, { limit: PAGE, cursor }, signal);
    list.append(...page.files.map((file) => row(bench, file)));
    list.append(...Object.entries(page.refused).map(([name, why]) => make("li.stack.tight", {}, make("span.mono.small", {}, name), make("p.small.quiet", {}, `Left alone: ${why}.`))));
    put(foot, page.next && button("button", "Show more", () => load(page.next)));
  }
  await load(null);
  put(panel,
    make("p.quiet", {}, "What is in memory/, artifacts/ and buffers/ outlives every restart. All else that code writes is gone with its sandbox."),
    list.children.length === 0 ? empty("The volume is empty", "Documents, artifacts and what code keeps there will be listed here.") : [list, foot]);
}

/** Whether a file may be a document; what it really is shows when it is loaded. */
function readable(name) {
  return !name.startsWith("buffers/texts/") && !/\.(png|jpe?g|gif|webp|zip|gz|parquet|db)$/i.test(name);
}

function row(bench, file) {
  return make("li.row.apart.near", {},
    make("div.stack.tight.grow", {},
      make("span.mono.small.path", {}, file.path),
      make("p.small.quiet", {}, `${bytes(file.size)} · `, time(file.modified))),
    readable(file.path) && button("button.small", "Load", async () => {
      const loaded = await post(path`/threads/${bench.id}/documents/load`, { path: file.path });
      tell(`${loaded.name} is loaded.`);
      await bench.choose("documents", { read: loaded.path });
    }, { "aria-label": `Load ${file.path} as a document` }));
}
