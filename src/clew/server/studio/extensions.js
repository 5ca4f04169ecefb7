// What installed agents add to the Studio: pages, and how their messages are shown.

import { at } from "./urls.js";

const decorators = [];

/** Load the scripts of agents; their pages by name, as {name: [title, page]}. One that fails is left out. */
export async function extended(extensions) {
  const pages = {};
  for (const { agent, script, navigation } of extensions) {
    const module = await import(at(`/studio/agents/${agent}/${script}`)).catch((error) => {
      console.error(`The Studio goes on without the script of ${agent}.`, error);
      return {};
    });
    if (module.decorate) decorators.push(module.decorate);
    for (const [name, page] of Object.entries(module.pages ?? {})) pages[name] = [navigation[name] ?? name, page];
  }
  return pages;
}

/** How a message is shown, as far as an agent says: {careful, above, said}. The first that says something is heard. */
export function decorated(message) {
  const found = {};
  for (const decorate of decorators) {
    for (const [name, value] of Object.entries(decorate(message))) found[name] ||= value;
  }
  return found;
}
