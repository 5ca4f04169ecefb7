// Requests to the server: who is asking, JSON in and out, and errors as sentences with their codes.

import { noteAnswer, noteLoss } from "./connection.js";
import { API } from "./urls.js";

const WHO = "clew-who";
const KEY = "clew-key";
export const WEB_USER = "web-user";

/** An error of the server's, or one that kept it from answering. */
export class Problem extends Error {
  constructor(detail, code, status, facts = {}) {
    super(detail);
    this.code = code;
    this.status = status;
    this.facts = facts;
  }
}

/** Who is asking: the user that chats are for, whether only that user's threads are shown, and a key. */
export function who() {
  const kept = keptIn(localStorage.getItem(WHO));
  return { user: kept.user || WEB_USER, only: kept.only === true, key: sessionStorage.getItem(KEY) || "" };
}

/** What was kept; nothing if another program of this address has put something else there. */
function keptIn(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/** Use another identity from now on. A key is stored for this tab alone. */
export function become({ user, only, key }) {
  localStorage.setItem(WHO, JSON.stringify({ user, only }));
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

function headersOf(more) {
  const asking = who();
  const credentials = asking.key
    ? { Authorization: `Bearer ${asking.key}` }
    : { "X-Clew-User": asking.only ? asking.user : "*" };
  return { ...credentials, ...more };
}

/** A path below the API: path`/threads/${id}`, with every name encoded. */
export function path(parts, ...names) {
  return parts.reduce((done, part, index) => done + encodeURIComponent(names[index - 1]) + part);
}

function query(parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** The response to a request; a Problem if it is none that helps. */
export async function request(method, where, { parameters, body, headers = {}, signal, keepalive = false } = {}) {
  const file = body instanceof Blob;
  const sent = body === undefined ? {} : { "Content-Type": file ? "application/octet-stream" : "application/json" };
  let response;
  try {
    response = await fetch(API + where + query(parameters), {
      method,
      headers: headersOf({ ...sent, ...headers }),
      body: body === undefined || file ? body : JSON.stringify(body),
      signal,
      keepalive,
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (isOfAProxy(response)) throw unreachable();
  noteAnswer();
  if (!response.ok) throw await problemOf(response);
  return response;
}

function unreachable() {
  noteLoss();
  return new Problem("The server does not answer. Is it still running?", "unreachable", 0);
}

/** Whether a proxy answers because there is no server behind it: the server says what is wrong in its own form. */
function isOfAProxy(response) {
  return [502, 503, 504].includes(response.status) && !response.headers.get("Content-Type")?.includes("json");
}

async function problemOf(response) {
  try {
    const body = await response.json();
    return new Problem(body.detail, body.code, body.status, body.facts);
  } catch {
    return new Problem(`The server answered ${response.status}.`, "error", response.status);
  }
}

async function json(method, where, options) {
  const response = await request(method, where, options);
  return response.status === 204 ? null : response.json();
}

export const get = (where, parameters, signal) => json("GET", where, { parameters, signal });
export const put = (where, body, parameters) => json("PUT", where, { body, parameters });

/** A POST that can be repeated safely. */
export function post(where, body = {}, parameters = undefined) {
  return json("POST", where, { body, parameters, headers: { "Idempotency-Key": crypto.randomUUID() } });
}

/** The text of an answer, like the numbers of /metrics. */
export async function text(method, where, options) {
  return (await request(method, where, options)).text();
}
