// Values as people read them: times, numbers, costs, JSON; and the ids that a page makes up.

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });
const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];
const BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz";

/** How long ago: "3 minutes ago". */
export function ago(milliseconds, now = Date.now()) {
  let distance = (milliseconds - now) / 1000;
  if (Math.abs(distance) < 5) return "just now";
  for (const [unit, size] of STEPS) {
    if (Math.abs(distance) < size) return RELATIVE.format(Math.round(distance), unit);
    distance /= size;
  }
  return moment(milliseconds);
}

/** A date and a time of day. */
export function moment(milliseconds) {
  return MOMENT.format(new Date(milliseconds));
}

/** A day: "15 May 2026", by the same calendar as the field for a day. */
export function date(milliseconds) {
  return DAY.format(new Date(milliseconds));
}

/** The day of a time where the reader is, as a field for a day has it: "2026-05-15". */
export function localDay(milliseconds) {
  const time = new Date(milliseconds);
  const two = (number) => String(number).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}

/** How long something took. */
export function lasting(milliseconds) {
  if (milliseconds > 0 && milliseconds < 0.5) return "< 1 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/** A number with its noun: "1 item", "2 items". */
export function count(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** A number of bytes: "12 kB". */
export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(number, 1)) / 3));
  const scaled = number / 1000 ** step;
  return `${scaled.toLocaleString("en", { maximumFractionDigits: scaled < 10 && step > 0 ? 1 : 0 })} ${units[step]}`;
}

/** Millionths of a dollar as dollars. */
export function cost(millionths) {
  if (!millionths) return "$0";
  const dollars = millionths / 1_000_000;
  return dollars < 0.01 ? `$${dollars.toFixed(6).replace(/0+$/, "")}` : `$${dollars.toFixed(2)}`;
}

/** A value as text: text as it is, the rest as JSON. */
export function shown(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}

/** A text that begins like a sentence. */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A text as a sentence. */
export function asSentence(text) {
  return /[.!?…”]$/.test(text) ? capital(text) : `${capital(text)}.`;
}

/** The id of a new chat: web- and eight letters or digits. */
export function webId(random = (bytes) => crypto.getRandomValues(bytes)) {
  const letters = [];
  while (letters.length < 8) {
    const [byte] = random(new Uint8Array(1));
    if (byte < 252) letters.push(BASE36[byte % 36]); // 252 is 7 × 36: every letter is as likely
  }
  return `web-${letters.join("")}`;
}

/** Words to look for, without case and accents. */
export function wordsOf(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}
