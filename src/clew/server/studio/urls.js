// The URLs of the Studio and the API: below whatever address the server is reached at, also behind a proxy's prefix.

const BASE = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
const STUDIO = "/studio";

export const API = `${BASE}/api/v1`;
export const HOME = BASE + STUDIO;

/** The address of a page that is named from the Studio on: /studio/threads. Any other address stays as it is. */
export function at(where) {
  return where === STUDIO || where.startsWith(`${STUDIO}/`) || where.startsWith(`${STUDIO}?`) ? BASE + where : where;
}
