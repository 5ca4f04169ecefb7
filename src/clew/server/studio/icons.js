// Small drawings beside words. They say nothing by themselves, so readers of the screen pass over them.

import { draw } from "./dom.js";

const PATHS = {
  threads: "M4 6h16M4 12h16M4 18h10",
  approvals: "M4 5h16v14H4zM8 12l3 3 5-6",
  memory: "M12 4a5 5 0 0 0-5 5c-2 .5-3 2-3 4a4 4 0 0 0 4 4h1v3M12 4a5 5 0 0 1 5 5c2 .5 3 2 3 4a4 4 0 0 1-4 4h-1v3M12 4v16",
  sessions: "M12 7v5l3 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0z",
  search: "M20 20l-4.500-4.500M11 18a7 7 0 1 1 0-14 7 7 0 0 1 0 14z",
  experiments: "M9 3h6M10 3v6l-5 9a2 2 0 0 0 2 3h10a2 2 0 0 0 2-3l-5-9V3M8 15h8",
  usage: "M4 20h16M7 20v-6M12 20V6M17 20v-9",
  system: "M3 12h4l3-8 4 16 3-8h4",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c1-4 4-6 8-6s7 2 8 6",
  theme: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  plus: "M12 5v14M5 12h14",
  send: "M5 12h14M13 6l6 6-6 6",
  stop: "M7 7h10v10H7z",
  veil: "M3 12h18M6 12l1.500-6h9L18 12M8 18a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM16 18a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z",
  chain: "M10 14l4-4M8 12l-2 2a3.500 3.500 0 0 0 5 5l2-2M16 12l2-2a3.500 3.500 0 0 0-5-5l-2 2",
  back: "M15 6l-6 6 6 6",
  next: "M9 6l6 6-6 6",
  fork: "M7 4v16M7 14c0-4 10-2 10-7V5M4 7l3-3 3 3",
  rewind: "M4 12a8 8 0 1 0 3-6M4 4v5h5",
  save: "M12 4v11M7 11l5 5 5-5M5 20h14",
  phone: "M6 3h3l2 5-2.500 2a12 12 0 0 0 5.500 5.500l2-2.500 5 2v3a2 2 0 0 1-2 2A17 17 0 0 1 4 5a2 2 0 0 1 2-2z",
  hangup: "M3 15v-2c0-3 4-5 9-5s9 2 9 5v2l-5-1v-2.500a12 12 0 0 0-8 0V14z",
  microphone: "M12 15a3 3 0 0 1-3-3V6a3 3 0 0 1 6 0v6a3 3 0 0 1-3 3zM6 11v1a6 6 0 0 0 12 0v-1M12 18v3",
};

/** The drawing of a name. */
export function icon(name) {
  return draw("svg.icon", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: PATHS[name] ?? PATHS.next }));
}
