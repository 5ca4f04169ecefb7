/* One small design system: tokens, elements, parts, pages. Every colour of text has 4.5:1 on every surface. */

/* Tokens ------------------------------------------------------------------------------------------------ */

:root {
  color-scheme: light dark;
  --ground: light-dark(#f5f5f2, #131619);
  --surface: light-dark(#ffffff, #1b1f23);
  --sunken: light-dark(#eeeeea, #23282d);
  --ink: light-dark(#1d2126, #e8eaed);
  --quiet: light-dark(#575e69, #a9b1bb);
  --line: light-dark(#dcdcd6, #30363c);
  --edge: light-dark(#83888f, #7d8690);
  --accent: light-dark(#0b5c69, #74cbd6);
  --accent-soft: light-dark(#dff0f1, #17363b);
  --on-accent: light-dark(#ffffff, #08262b);
  --good: light-dark(#1a6339, #7fd0a0);
  --good-soft: light-dark(#e0f1e6, #173425);
  --warn: light-dark(#7a4d00, #e6b865);
  --warn-soft: light-dark(#fbeed3, #3a2c10);
  --bad: light-dark(#9c2227, #f49a96);
  --bad-soft: light-dark(#fbe4e3, #411c1d);
  --veil: light-dark(#5a3e85, #c9b3ee);
  --veil-soft: light-dark(#ece5f6, #2e2440);
  --mark: light-dark(#ffe9a3, #5c4a12);
  --shadow: 0 1px 2px light-dark(rgb(20 24 28 / 6%), rgb(0 0 0 / 40%)), 0 8px 24px light-dark(rgb(20 24 28 / 8%), rgb(0 0 0 / 35%));
  --s1: 0.25rem;
  --s2: 0.5rem;
  --s3: 0.75rem;
  --s4: 1rem;
  --s5: 1.5rem;
  --s6: 2.25rem;
  --small: 0.8125rem;
  --text: 0.9375rem;
  --large: 1.125rem;
  --title: 1.5rem;
  --round: 0.5rem;
  --rounder: 0.875rem;
  --sans: "Inter", "Segoe UI", system-ui, -apple-system, "Helvetica Neue", "Noto Sans", "Liberation Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Code", "JetBrains Mono", "Noto Sans Mono", monospace;
}

:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; }

/* Elements ---------------------------------------------------------------------------------------------- */

*, *::before, *::after { box-sizing: border-box; }
html { font-size: 100%; scrollbar-gutter: stable; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 400 var(--text)/1.5 var(--sans); overflow-wrap: break-word; }
h1, h2, h3 { margin: 0; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; }
h1 { font-size: var(--title); }
h2 { font-size: var(--large); }
h3, .minor { font-size: var(--text); }
p { margin: 0; }
ul, ol, dl, dd, figure, fieldset { margin: 0; padding: 0; border: 0; list-style: none; }
a { color: var(--accent); text-underline-offset: 0.2em; }
code, pre, .mono { font-family: var(--mono); font-size: 0.92em; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: var(--mark); color: var(--ink); border-radius: 0.2em; padding: 0 0.1em; }
:focus { outline: none; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 0.3rem; }
main:focus-visible { outline: none; }
[hidden] { display: none !important; }

button, .button, input, select, textarea { font: inherit; color: inherit; }
button, .button {
  display: inline-flex; align-items: center; justify-content: center; gap: var(--s2); min-height: 2.5rem;
  padding: 0 var(--s4); border: 1px solid var(--edge); border-radius: var(--round); background: var(--surface);
  color: var(--ink); font-weight: 550; text-decoration: none; cursor: pointer; white-space: nowrap;
}
button:hover, .button:hover { background: var(--sunken); }
button:disabled { opacity: 0.55; cursor: default; }
button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.main:hover { filter: brightness(1.08); }
button.bad { border-color: var(--bad); color: var(--bad); }
button.bad.main { background: var(--bad); color: var(--surface); }
button.plain { border-color: transparent; background: transparent; padding: 0 var(--s2); color: var(--accent); }
button.plain:hover { background: var(--accent-soft); }
button.small { min-height: 2rem; padding: 0 var(--s3); font-size: var(--small); }
button.icon { width: 2.5rem; padding: 0; }
input[type="text"], input[type="search"], input[type="password"], select, textarea {
  width: 100%; min-height: 2.5rem; padding: var(--s2) var(--s3); border: 1px solid var(--edge);
  border-radius: var(--round); background: var(--surface);
}
select { width: auto; padding-right: var(--s5); }
textarea { resize: none; line-height: 1.45; }
::placeholder { color: var(--quiet); opacity: 1; }
input[type="range"] { width: 100%; min-height: 2rem; margin: 0; accent-color: var(--accent); }
input[type="checkbox"] { width: 1.15rem; height: 1.15rem; accent-color: var(--accent); margin: 0; flex: none; }
svg.icon { width: 1.15rem; height: 1.15rem; flex: none; fill: none; stroke: currentcolor; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }

/* Frame ------------------------------------------------------------------------------------------------- */

.skip { position: absolute; left: -999rem; top: 0; z-index: 20; background: var(--surface); padding: var(--s3); }
.skip:focus { left: var(--s3); top: var(--s3); }
.frame { display: grid; grid-template-columns: 13.5rem minmax(0, 1fr); min-height: 100vh; min-height: 100dvh; }
.top { position: sticky; top: 0; display: flex; flex-direction: column; gap: var(--s5); height: 100vh; height: 100dvh; padding: var(--s4) var(--s3); border-right: 1px solid var(--line); background: var(--surface); }
.brand { display: flex; align-items: center; gap: var(--s2); padding: var(--s1) var(--s2); color: var(--ink); font-weight: 650; text-decoration: none; }
.nav { display: flex; flex-direction: column; gap: 2px; }
.nav a { display: flex; align-items: center; gap: var(--s3); min-height: 2.5rem; padding: 0 var(--s3); border-radius: var(--round); color: var(--quiet); font-weight: 550; text-decoration: none; }
.nav a:hover { background: var(--sunken); color: var(--ink); }
.nav a[aria-current="page"] { background: var(--accent-soft); color: var(--accent); }
.tools { margin-top: auto; display: flex; flex-direction: column; gap: 2px; }
.tools button { justify-content: flex-start; gap: var(--s3); padding: 0 var(--s3); border-color: transparent; background: transparent; color: var(--quiet); min-width: 0; }
.tools button:hover { background: var(--sunken); color: var(--ink); }
.tools button span { overflow: hidden; text-overflow: ellipsis; }
main { min-width: 0; padding: var(--s5) var(--s6) var(--s6); }
.page { max-width: 60rem; margin: 0 auto; display: grid; gap: var(--s5); grid-template-columns: minmax(0, 1fr); }
.notes { position: fixed; left: 50%; bottom: var(--s5); transform: translateX(-50%); z-index: 15; display: grid; gap: var(--s2); width: min(30rem, calc(100vw - 2rem)); pointer-events: none; }
.notes .notice { box-shadow: var(--shadow); pointer-events: auto; }

/* Parts ------------------------------------------------------------------------------------------------- */

.quiet { color: var(--quiet); font-weight: 400; }
.small { font-size: var(--small); }
.row { display: flex; align-items: center; gap: var(--s3); flex-wrap: wrap; }
.row.apart { justify-content: space-between; }
.row.near { gap: var(--s2); }
.grow { flex: 1 1 12rem; min-width: 0; }
.stack { display: grid; gap: var(--s3); grid-template-columns: minmax(0, 1fr); }
.stack.tight { gap: var(--s1); }
.row.foot-line { align-items: flex-end; }
.cut { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.hidden-label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.card { padding: var(--s4); border: 1px solid var(--line); border-radius: var(--rounder); background: var(--surface); }
.list { border: 1px solid var(--line); border-radius: var(--rounder); background: var(--surface); overflow: hidden; }
.list > li { padding: var(--s3) var(--s4); border-top: 1px solid var(--line); }
.list > li:first-child { border-top: 0; }
.chip { display: inline-flex; align-items: center; gap: 0.35em; min-height: 1.5rem; padding: 0 0.6em; border-radius: 1rem; background: var(--sunken); color: var(--quiet); font-size: var(--small); font-weight: 550; white-space: nowrap; max-width: 100%; }
.chip .icon { width: 0.95rem; height: 0.95rem; }
.chip.good { background: var(--good-soft); color: var(--good); }
.chip.warn { background: var(--warn-soft); color: var(--warn); }
.chip.bad { background: var(--bad-soft); color: var(--bad); }
.chip.accent { background: var(--accent-soft); color: var(--accent); }
.chip.veil { background: var(--veil-soft); color: var(--veil); }
button.chip { border: 1px solid transparent; cursor: pointer; min-height: 1.75rem; }
button.chip:hover { border-color: currentcolor; }
.notice { padding: var(--s3) var(--s4); border-radius: var(--round); background: var(--accent-soft); color: var(--ink); border: 1px solid transparent; }
.notice.bad { background: var(--bad-soft); color: var(--bad); }
.notice.warn { background: var(--warn-soft); color: var(--warn); }
.notice.veil { background: var(--veil-soft); color: var(--veil); }
.notice code { font-size: var(--small); }
.empty { display: grid; justify-items: center; gap: var(--s3); padding: var(--s6) var(--s4); text-align: center; color: var(--quiet); border: 1px dashed var(--edge); border-radius: var(--rounder); }
.empty h2, .empty h3 { color: var(--ink); }
.field { display: grid; gap: var(--s1); }
.field label, .label { font-size: var(--small); font-weight: 600; }
.field .quiet { font-size: var(--small); }
.check { display: flex; align-items: flex-start; gap: var(--s3); }
.check label { display: grid; font-weight: 600; }
.check .quiet { font-size: var(--small); }
.switch { min-height: 2.5rem; padding: 0 var(--s2); white-space: normal; text-align: left; border-color: transparent; background: transparent; }
.switch .knob { width: 2.5rem; height: 1.4rem; border-radius: 1rem; border: 1px solid var(--edge); background: var(--sunken); position: relative; flex: none; }
.switch .knob::after { content: ""; position: absolute; top: 2px; left: 2px; width: calc(1.4rem - 6px); height: calc(1.4rem - 6px); border-radius: 50%; background: var(--quiet); transition: transform 120ms; }
.switch[aria-checked="true"] .knob { background: var(--accent); border-color: var(--accent); }
.switch[aria-checked="true"] .knob::after { transform: translateX(1.1rem); background: var(--on-accent); }
.tabs { display: flex; gap: var(--s1); border-bottom: 1px solid var(--line); overflow-x: auto; scrollbar-width: none; }
.tabs button { border: 0; border-bottom: 2px solid transparent; border-radius: 0; background: transparent; color: var(--quiet); padding: 0 var(--s3); flex: none; }
.tabs button:hover { color: var(--ink); }
.tabs button[aria-selected="true"] { border-color: var(--accent); color: var(--accent); }
.tabs button:focus-visible { outline-offset: -3px; }
details { border: 1px solid var(--line); border-radius: var(--round); background: var(--surface); }
summary { padding: var(--s2) var(--s3); cursor: pointer; font-size: var(--small); font-weight: 550; color: var(--quiet); border-radius: var(--round); }
summary:hover { color: var(--ink); }
details > pre, details > .inside { padding: 0 var(--s3) var(--s3); font-size: var(--small); }
dialog { width: min(30rem, calc(100vw - 2rem)); max-height: calc(100dvh - 2rem); padding: var(--s5); border: 1px solid var(--line); border-radius: var(--rounder); background: var(--surface); color: var(--ink); box-shadow: var(--shadow); overflow: auto; }
dialog::backdrop { background: rgb(10 12 14 / 50%); }
dialog form { display: grid; gap: var(--s4); }
dialog .row.end { justify-content: flex-end; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: var(--s1) var(--s4); font-size: var(--small); }
.facts dt { color: var(--quiet); }
.facts dd { overflow-wrap: anywhere; }

/* Threads ----------------------------------------------------------------------------------------------- */

.threads > li { position: relative; display: grid; gap: var(--s1); }
.threads > li:hover { background: var(--sunken); }
.threads > li:hover .chip { background: var(--surface); }
.threads a.title { color: var(--ink); font-weight: 600; text-decoration: none; min-width: 0; }
.threads a.title::after { content: ""; position: absolute; inset: 0; }
.threads a.title:focus-visible { outline: none; }
.threads a.title:focus-visible::after { outline: 3px solid var(--accent); outline-offset: -3px; border-radius: var(--round); }
.threads .title.grow { flex-basis: 0; }
.threads .above { position: relative; z-index: 1; }
.threads .new { animation: arrive 1.6s ease-out; }
@keyframes arrive { from { background: var(--accent-soft); } }

/* A thread ---------------------------------------------------------------------------------------------- */

.thread { display: grid; grid-template-columns: minmax(0, 1fr) 24rem; grid-template-rows: auto minmax(0, 1fr); gap: 0 var(--s5); height: calc(100vh - 2 * var(--s5)); height: calc(100dvh - 2 * var(--s5)); max-width: 84rem; margin: 0 auto; }
.thread > header { grid-column: 1 / -1; display: grid; gap: var(--s2); padding-bottom: var(--s4); }
.thread > header h1 { min-width: 0; }
.talk { display: grid; grid-template-rows: auto minmax(0, 1fr) auto; min-height: 0; border: 1px solid var(--line); border-radius: var(--rounder); background: var(--surface); overflow: hidden; }
.talk .band { border-radius: 0; padding: var(--s2) var(--s4); }
.talk.veiled { border-color: var(--veil); box-shadow: inset 0 3px 0 var(--veil); }
.scroll { overflow-y: auto; padding: var(--s4); display: flex; flex-direction: column; gap: var(--s3); overscroll-behavior: contain; }
.messages { display: flex; flex-direction: column; gap: var(--s3); }
.messages:empty, .scroll > .row:empty { display: none; }
.scroll::before { content: ""; margin-top: auto; }
.message { display: grid; gap: var(--s1); max-width: min(42rem, 92%); }
.message .said { padding: var(--s3) var(--s4); border-radius: var(--rounder); background: var(--sunken); white-space: pre-wrap; overflow-wrap: anywhere; }
.message.user { align-self: flex-end; justify-items: end; }
.message.user .said { background: var(--accent-soft); border-bottom-right-radius: 0.25rem; }
.message.assistant .said { border-bottom-left-radius: 0.25rem; }
.message.system .said, .message.aside .said { background: transparent; border: 1px dashed var(--edge); color: var(--quiet); }
.message .about { font-size: var(--small); color: var(--quiet); padding: 0 var(--s1); }
.message.unsent .said { opacity: 0.75; }
.message.live .said::after { content: ""; display: inline-block; width: 0.5em; height: 1em; margin-left: 0.15em; vertical-align: -0.15em; background: var(--accent); border-radius: 1px; animation: blink 1s steps(2) infinite; }
@keyframes blink { 50% { opacity: 0; } }
.tool { width: min(42rem, 92%); }
.tool summary code { color: var(--ink); }
.approval { border: 1px solid var(--warn); border-radius: var(--rounder); padding: var(--s4); display: grid; gap: var(--s3); grid-template-columns: minmax(0, 1fr); max-width: 42rem; }
.foot { border-top: 1px solid var(--line); padding: var(--s3); display: flex; flex-direction: column; gap: var(--s2); }
.foot > p:empty { margin-top: calc(-1 * var(--s2)); }
.composer { display: flex; gap: var(--s2); align-items: flex-end; }
.composer textarea { max-height: 10rem; }
.side { display: grid; grid-template-rows: auto minmax(0, 1fr); min-height: 0; border: 1px solid var(--line); border-radius: var(--rounder); background: var(--surface); overflow: hidden; }
.panel { overflow-y: auto; padding: var(--s4); display: grid; gap: var(--s4); align-content: start; grid-template-columns: minmax(0, 1fr); }
.only-narrow { display: none; }
.ops { display: grid; gap: var(--s1); font-size: var(--small); }
.ops li { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: var(--s2); padding: var(--s1) var(--s2); border-radius: 0.3rem; background: var(--sunken); }
.ops li.added { background: var(--good-soft); color: var(--good); }
.ops li.removed { background: var(--bad-soft); color: var(--bad); }
.ops pre { font-size: 1em; max-height: 9rem; overflow: hidden; }

/* Memory, sessions, system ------------------------------------------------------------------------------ */

.fact { display: grid; gap: var(--s2); }
blockquote { margin: 0; padding-left: var(--s3); border-left: 3px solid var(--line); color: var(--quiet); }
.cells { display: grid; grid-template-columns: minmax(0, 2.2fr) minmax(0, 1fr) minmax(0, 1fr) auto; gap: var(--s2) var(--s4); align-items: center; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: var(--s4); }
.chart figcaption { display: flex; justify-content: space-between; align-items: baseline; gap: var(--s3); margin-bottom: var(--s2); }
.chart .now { font-size: var(--large); font-weight: 650; font-variant-numeric: tabular-nums; }
.chart p { margin-top: var(--s1); }
.chart svg { display: block; width: 100%; height: 6rem; }
.chart .line { fill: none; stroke: var(--accent); stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.chart .area { fill: var(--accent); opacity: 0.12; }
.chart .rule { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 11rem), 1fr)); gap: var(--s4); }
.tile { align-content: start; }
.tile .big { font-size: var(--large); font-weight: 650; overflow-wrap: anywhere; }

/* Narrow ------------------------------------------------------------------------------------------------ */

@media (max-width: 68rem) {
  .thread { grid-template-columns: minmax(0, 1fr); grid-template-rows: auto auto minmax(0, 1fr); }
  .thread .only-narrow { display: flex; margin-bottom: var(--s3); }
  .thread .side > .tabs { display: none; }
  .thread .side { grid-template-rows: minmax(0, 1fr); }
  .thread[data-showing="chat"] .side { display: none; }
  .thread:not([data-showing="chat"]) .talk { display: none; }
}

@media (max-width: 46rem) {
  html { scrollbar-gutter: auto; }
  .frame { grid-template-columns: minmax(0, 1fr); grid-template-rows: auto minmax(0, 1fr); }
  .top { position: static; flex-direction: row; align-items: center; gap: var(--s2); height: auto; padding: var(--s2) var(--s3); border-right: 0; border-bottom: 1px solid var(--line); }
  .tools { flex-direction: row; margin-left: auto; margin-top: 0; min-width: 0; }
  .tools button { width: 2.5rem; padding: 0; justify-content: center; }
  .tools button span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .nav { position: fixed; z-index: 10; left: 0; right: 0; bottom: 0; flex-direction: row; gap: 0; background: var(--surface); border-top: 1px solid var(--line); padding-bottom: env(safe-area-inset-bottom); }
  .nav a { flex: 1 1 0; min-width: 0; flex-direction: column; justify-content: center; gap: 2px; min-height: 3.5rem; padding: 0; border-radius: 0; font-size: 0.6875rem; }
  .nav a:focus-visible { outline-offset: -3px; }
  main { padding: var(--s4) var(--s3) 5rem; }
  .notes { bottom: 4.5rem; }
  .thread { height: calc(100vh - 9.25rem); height: calc(100dvh - 9.25rem); }
  .thread > header { padding-bottom: var(--s2); }
  .thread > header h1 { font-size: var(--large); }
  .scroll { padding: var(--s3); }
  .list > li { padding: var(--s3); }
  .thread .tabs button { padding: 0 var(--s2); font-size: var(--small); }
  .thread .only-wide { display: none; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: var(--s3); }
  .tile { padding: var(--s3); }
  .cells { grid-template-columns: minmax(0, 1fr) auto; }
  .page > .row > .button, .page > .row > button.main { flex: 1 1 auto; }
}

@media (prefers-reduced-motion: reduce) {
  *, *::before, *::after { animation: none !important; transition: none !important; scroll-behavior: auto !important; }
}
