// Widgets that pages are made of: notices, empty states, chips, tabs, times, dialogs.

import { add, freshId, make, put } from "./dom.js";
import { icon } from "./icons.js";
import { ago, moment } from "./format.js";

/** An error as a sentence with its code. */
export function problem(error) {
  const code = error.code ?? "error";
  return make("p.notice.bad", { role: "alert" }, error.message, " ", make("code", {}, code));
}

/** Say something for a while at the foot of the page. */
export function tell(said, kind = "") {
  const place = document.getElementById("notes");
  const note = said instanceof Error ? problem(said) : make(`p.notice${kind ? `.${kind}` : ""}`, {}, said);
  note.removeAttribute("role"); // the place itself is announced
  [...place.children].filter((each) => each.textContent === note.textContent).forEach((each) => each.remove());
  place.append(note);
  setTimeout(() => note.remove(), said instanceof Error ? 9000 : 4500);
}

/** The content of an empty list, and what to do about it. */
export function empty(title, advice, action = null) {
  return make("div.empty", {}, make("h2", {}, title), make("p", {}, advice), action);
}

/** A small label; kinds are good, warn, bad, accent, veil. */
export function chip(said, kind = "", drawing = null) {
  return make(`span.chip${kind ? `.${kind}` : ""}`, {}, drawing && icon(drawing), said);
}

/** How long ago something was, and on hovering when. */
export function time(milliseconds) {
  return make("time", { datetime: new Date(milliseconds).toISOString(), title: moment(milliseconds) }, ago(milliseconds));
}

/** Say of every time on the page how long ago it is by now. */
export function tick() {
  for (const each of document.querySelectorAll("time")) {
    const said = ago(Date.parse(each.dateTime));
    if (each.textContent !== said) each.textContent = said;
  }
}

/** A button that does something which may take a moment or fail. */
export function button(name, said, work, properties = {}) {
  const made = make(name, { type: "button", ...properties }, said);
  made.addEventListener("click", async () => {
    made.disabled = true;
    try {
      await work();
    } catch (error) {
      tell(error);
    } finally {
      made.disabled = false;
    }
  });
  return made;
}

/** A field of a form with its label and a hint. */
export function field(label, control, hint = "") {
  control.id ||= freshId("field");
  const about = hint ? make("span.quiet", { id: freshId("hint") }, hint) : null;
  if (about) control.setAttribute("aria-describedby", about.id);
  return make("div.field", {}, make("label", { for: control.id }, label), control, about);
}

/** A box to tick, with its label and a hint. */
export function check(label, box, hint = "") {
  box.id ||= freshId("check");
  return make("div.check", {}, box, make("label", { for: box.id }, label, hint && make("span.quiet", {}, hint)));
}

/** A switch that is on or off. */
export function toggle(label, on, changed) {
  const made = make("button.switch", { type: "button", role: "switch", "aria-checked": String(on) },
    make("span.knob", { "aria-hidden": "true" }), label);
  made.addEventListener("click", async () => {
    const next = made.getAttribute("aria-checked") !== "true";
    try {
      await changed(next);
      made.setAttribute("aria-checked", String(next));
    } catch (error) {
      tell(error);
    }
  });
  return made;
}

/** Tabs: `names` by key; `chosen(key)` is called on a choice. Arrow keys go from one to the next. */
export function tabs(label, names, first, chosen, controls) {
  const keys = Object.keys(names);
  const made = Object.fromEntries(keys.map((key) => [key, make("button", {
    type: "button", role: "tab", id: freshId("tab"), "aria-controls": controls,
    onclick: () => choose(key),
  }, names[key])]));
  const list = make("div.tabs", { role: "tablist", "aria-label": label }, Object.values(made));
  function choose(key, silently = false) {
    for (const each of keys) {
      made[each].setAttribute("aria-selected", String(each === key));
      made[each].tabIndex = each === key ? 0 : -1;
    }
    if (!silently) chosen(key);
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -keys.length, End: keys.length }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = keys.findIndex((key) => made[key] === document.activeElement);
    const next = Math.abs(step) > 1 ? (step > 0 ? keys.length - 1 : 0) : (at + step + keys.length) % keys.length;
    choose(keys[next]);
    made[keys[next]].focus();
  });
  choose(first, true);
  return { element: list, choose, tab: (key) => made[key] };
}

/**
 * A dialog with a form. `send()` does what it asks for; if that fails, the error is shown in the dialog.
 * Gives back what `send` gave, or null if it was closed.
 */
export function ask({ title, parts = [], yes, no = "Cancel", bad = false, send }) {
  return new Promise((resolve) => {
    const failed = make("div", {});
    const heading = make("h2", { id: freshId("dialog") }, title);
    const done = make(`button.main${bad ? ".bad" : ""}`, { type: "submit" }, yes);
    const form = make("form", { method: "dialog" }, heading, parts, failed,
      make("div.row.end", {}, no && make("button", { type: "button", onclick: () => dialog.close() }, no), done));
    const dialog = make("dialog", { "aria-labelledby": heading.id }, form);
    let result = null;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      done.disabled = true;
      try {
        result = (await send?.()) ?? true;
        dialog.close();
      } catch (error) {
        put(failed, problem(error));
      } finally {
        done.disabled = false;
      }
    });
    dialog.addEventListener("close", () => { dialog.remove(); resolve(result); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Something to read, in a dialog. */
export function show(title, ...parts) {
  return ask({ title, parts, yes: "Close", no: null });
}

/** Names and values in two columns. */
export function facts(pairs) {
  const list = make("dl.facts", {});
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    add(list, [make("dt", {}, name), make("dd", {}, value)]);
  }
  return list;
}

/** Do something again and again while the page can be seen; gives back how to stop. */
export function every(milliseconds, work) {
  let running = false;
  const timer = setInterval(async () => {
    if (document.hidden || running) return;
    running = true;
    try {
      await work();
    } finally {
      running = false;
    }
  }, milliseconds);
  return () => clearInterval(timer);
}

/** A link inside the Studio. */
export function link(where, said, properties = {}) {
  return make("a", { href: where, ...properties }, said);
}

/** The address of a thread's workbench. */
export function workbenchAt(id) {
  return threadAt(id).replace("/threads/", "/workbench/");
}

/** The address of a thread, at a version if one is given. */
export function threadAt(id, version = null) {
  return `/studio/threads/${encodeURIComponent(id)}${version ? `?at=${version}` : ""}`;
}
