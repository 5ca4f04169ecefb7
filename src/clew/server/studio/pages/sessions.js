// Sessions and jobs: what is active, what has ended, what is yet to be done, and what was given up.

import { get, path, post } from "../api.js";
import { make, put } from "../dom.js";
import { button, chip, empty, every, link, problem, tell, threadAt, time } from "../widgets.js";
import { count } from "../format.js";

const LOOK_AGAIN = 3000;
const KINDS = { active: "good", ending: "warn", ended: "", dead: "bad", running: "accent", waiting: "" };
const STATUSES = { "": "All", waiting: "Waiting", running: "Running", dead: "Given up" };

export async function sessions({ place, signal }) {
  const active = make("div", {});
  const over = make("div", {});
  const jobs = make("div", {});
  const failed = make("div", {});
  const status = make("select", { "aria-label": "Which jobs" }, Object.entries(STATUSES).map(([value, name]) => make("option", { value }, name)));
  const shown = new Map();

  /** Draw a list anew only if it is another one, so that nothing jumps and no button loses the focus. */
  function draw(where, found, made) {
    const now = JSON.stringify(found);
    if (shown.get(where) === now) return;
    shown.set(where, now);
    put(where, made());
  }

  async function load() {
    const [now, ended, work] = await Promise.all([
      get("/episodes", { limit: 50 }, signal),
      get("/episodes", { over: true, limit: 20 }, signal),
      get("/jobs", { status: status.value, limit: 100 }, signal),
    ]);
    put(failed);
    draw(active, now.episodes, () => now.episodes.length
      ? make("ul.list", {}, now.episodes.map((each) => episode(each, load)))
      : empty("No session is active", "A session begins with a turn and ends on request, or after twenty idle minutes."));
    draw(over, ended.episodes, () => ended.episodes.length
      ? make("ul.list", {}, ended.episodes.map((each) => episode(each, load)))
      : make("p.quiet", {}, "None has ended yet."));
    draw(jobs, work.jobs, () => work.jobs.length
      ? [make("ul.list", {}, work.jobs.map((each) => job(each, load))), work.next && make("p.quiet.small", {}, "There are more. These come first.")]
      : make("p.quiet", {}, status.value ? "There are none of this kind." : "Nothing is left to do."));
  }

  status.addEventListener("change", () => load().catch(tell));
  put(place, make("div.page", {}, make("h1", {}, "Sessions and jobs"), failed,
    make("section.stack", { "aria-label": "Active sessions" }, make("h2", {}, "Active"), active),
    make("section.stack", { "aria-label": "Ended sessions" }, make("h2", {}, "Ending and ended"), over),
    make("section.stack", { "aria-label": "Jobs" }, make("div.row.apart", {}, make("h2", {}, "Jobs"), status), jobs)));
  await load();
  const stop = every(LOOK_AGAIN, () => load().catch((error) => { if (!signal.aborted && !failed.firstChild) put(failed, problem(error)); }));
  signal.addEventListener("abort", stop);
  return load;
}

function episode(each, load) {
  return make("li.cells", {},
    make("div.stack.tight", {}, link(threadAt(each.session), each.session, { class: "cut" }),
      make("span.small.quiet.cut", {}, `${each.user ?? "nobody"} · ${count(each.turns, "turn")} · ${each.modality}`)),
    make("span", {}, chip(each.status, KINDS[each.status])),
    make("span.small.quiet", {}, each.ended ? ["ended ", time(each.ended), each.ended_by && ` by ${each.ended_by}`] : ["last turn ", time(each.touched)]),
    each.status === "active"
      ? button("button.small", "End", async () => {
        const done = await post(path`/sessions/${each.session}/end`);
        tell(`The session is ${done.status === "none" ? "over already" : done.status}.`);
        await load();
      }, { "aria-label": `End the session ${each.session}` })
      : make("span.small.quiet", {}, each.feedback ?? ""));
}

function job(each, load) {
  return make("li.stack.tight", {},
    make("div.cells", {},
      make("div.stack.tight", {}, make("span", {}, each.kind), make("span.small.mono.quiet.cut", {}, each.id)),
      make("span", {}, chip(each.status === "dead" ? "given up" : each.status, KINDS[each.status])),
      make("span.small.quiet", {}, each.status === "dead"
        ? `after ${count(each.attempts, "attempt")}`
        : [`${each.attempts} of ${count(each.limit, "attempt")} · due `, time(each.due)]),
      each.status === "dead"
        ? button("button.small", "Try again", async () => {
          await post(path`/jobs/${each.id}/retry`);
          tell("It is tried again.");
          await load();
        }, { "aria-label": `Try again: ${each.kind} ${each.id}` })
        : make("span", {})),
    each.problem && make("p.small.notice.bad", {}, each.problem));
}
