// Artifacts: what the thread made. Pictures are drawn, and nothing else of a file is ever shown as a page.

import { get, path, request } from "../api.js";
import { make, put } from "../dom.js";
import { ask, button, empty, facts, problem, show, time } from "../widgets.js";
import { bytes } from "../format.js";

const PAGE = 24;
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const LARGEST = 16 * 1024 * 1024;

export async function showArtifacts({ id, signal, panel }) {
  const grid = make("ul.artifacts", {});
  const foot = make("div.row", {});
  async function load(cursor) {
    const page = await get(path`/threads/${id}/artifacts`, { limit: PAGE, cursor }, signal);
    grid.append(...page.artifacts.map((each) => card(id, each, signal, () => showArtifacts({ id, signal, panel }))));
    put(foot, page.next && button("button", "Show more", () => load(page.next)));
    return page.artifacts.length;
  }
  const some = await load(null);
  put(panel, some === 0
    ? empty("Nothing was made yet", "Reports, tables and pictures that the assistant keeps for you are here.")
    : [grid, foot]);
}

function card(id, artifact, signal, changed) {
  const picture = PICTURES.has(artifact.type) && artifact.size <= LARGEST ? drawn(id, artifact, signal) : null;
  return make("li.card.stack.tight", {},
    make("div.frame-of", {}, picture ?? make("span.quiet", { "aria-hidden": "true" }, ending(artifact.name))),
    make("h2.name", {}, artifact.name),
    make("p.small.quiet", {}, `${artifact.type} · ${bytes(artifact.size)}`),
    make("p.small.quiet", {}, time(artifact.time)),
    make("div.row.near", {},
      button("button.small", "Save", () => save(id, artifact), { "aria-label": `Save ${artifact.name}` }),
      button("button.small", "About", () => show(artifact.name, about(artifact)), { "aria-label": `About ${artifact.name}` }),
      button("button.small.bad", "Delete", async () => { if (await remove(id, artifact)) await changed(); }, { "aria-label": `Delete ${artifact.name}` })));
}

/** A picture, decoded by the browser and drawn: no address of it is ever opened. */
function drawn(id, artifact, signal) {
  const canvas = make("canvas", { role: "img", "aria-label": artifact.name, width: "1", height: "1" });
  const place = make("div.picture", {}, canvas);
  fetched(id, artifact, signal).then(createImageBitmap).then((picture) => {
    [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext("2d").drawImage(picture, 0, 0);
    picture.close();
  }).catch((error) => {
    if (!signal.aborted) put(place, error.code ? problem(error) : make("p.small.quiet", {}, "The picture cannot be drawn."));
  });
  return place;
}

async function fetched(id, artifact, signal) {
  return (await request("GET", path`/threads/${id}/artifacts/${artifact.id}`, { signal })).blob();
}

async function save(id, artifact) {
  const address = URL.createObjectURL(await fetched(id, artifact));
  make("a", { href: address, download: artifact.name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function about(artifact) {
  return facts([
    ["Id", make("span.mono", {}, artifact.id)],
    ["On the volume", artifact.path],
    ["Type", artifact.type],
    ["Size", bytes(artifact.size)],
    ["SHA-256", make("span.mono", {}, artifact.sha256)],
    ["Made", time(artifact.time)],
    ["Run", artifact.run && make("span.mono", {}, artifact.run)],
    ["Item", artifact.item && make("span.mono", {}, artifact.item)],
  ]);
}

function remove(id, artifact) {
  return ask({
    title: "Delete this artifact?",
    parts: [make("p", {}, `${artifact.name} is taken off the volume. This cannot be undone.`)],
    yes: "Delete",
    bad: true,
    send: () => request("DELETE", path`/threads/${id}/artifacts/${artifact.id}`),
  });
}

function ending(name) {
  const [, last] = /\.([^.]{1,5})$/.exec(name) ?? [];
  return last ?? "file";
}
