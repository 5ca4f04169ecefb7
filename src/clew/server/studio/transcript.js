// What was said, as it is shown: messages, and tool calls folded together with their results.

import { make, put } from "./dom.js";
import { decorated } from "./extensions.js";
import { chip, time } from "./widgets.js";
import { prose } from "./prose.js";
import { shown } from "./format.js";

const ROLES = { user: "User", assistant: "Assistant", system: "System", tool: "Tool" };
const FORMATS = { "openai.responses": "OpenAI Agents", langchain: "LangGraph", adk: "Google ADK", "pydantic-ai": "Pydantic AI" };
const SHORT = 80;

/** What a format is called. */
export function formatName(format) {
  return FORMATS[format] ?? format;
}

/** A message of an event as the API's list of messages has it. */
export function asListed(message, version) {
  const said = { role: message.role, text: "", calls: [], results: [], id: message.id ?? null, version, time: Date.now(), format: "clew", visibility: "all", meta: message.meta ?? {} };
  if (message.kind === "call") said.calls = [{ id: message.call, name: message.name, arguments: message.arguments }];
  else if (message.kind === "result") said.results = [{ id: message.call, name: "", output: message.content }];
  else said.text = shown(message.content ?? "");
  return said;
}

/** A transcript that grows: `add` puts a message behind the others; a result goes to its call. */
export class Transcript {
  constructor(element) {
    this.element = element;
    this.calls = new Map();
    this.lonely = new Map(); // results whose call is on an earlier page
  }

  clear() {
    this.calls.clear();
    this.lonely.clear();
    put(this.element);
  }

  add(message) {
    const parts = this.partsOf(message);
    this.element.append(...parts);
    return parts[0];
  }

  /** Put older messages before those that are there; a result that came first goes to its call. */
  before(messages) {
    this.element.prepend(...messages.flatMap((message) => this.partsOf(message)));
    for (const [id, { element, output }] of this.lonely) {
      const call = this.calls.get(id);
      if (!call || call.isAnswered) continue;
      call.answer(output);
      element.remove();
      this.lonely.delete(id);
    }
  }

  partsOf(message) {
    const parts = message.text ? [bubble(message)] : [];
    for (const call of message.calls) {
      const folded = new Call(call);
      this.calls.set(call.id, folded);
      parts.push(folded.element);
    }
    for (const result of message.results) {
      const call = this.calls.get(result.id);
      if (call) call.answer(result.output);
      else parts.push(this.alone(result));
    }
    return parts;
  }

  alone(result) {
    const element = lonely(result);
    this.lonely.set(result.id, { element, output: result.output });
    return element;
  }
}

/** A message that is text. An agent may highlight it, put something above it, or show its words in its own way. */
export function bubble(message) {
  const isAside = message.visibility && message.visibility !== "all";
  const role = isAside ? "aside" : ROLES[message.role] ? message.role : "system";
  const { careful = false, above, said } = decorated(message);
  return make(`div.message.${role}${careful || message.meta?.fixed ? ".careful" : ""}`, { "data-version": message.version ?? null },
    make("span.hidden-label", {}, `${ROLES[message.role] ?? message.role}: `),
    above,
    make("div.said", { dir: "auto" }, said ?? (role === "assistant" ? prose(message.text) : message.text)),
    make("div.about", {},
      role === "system" || isAside ? `${ROLES[message.role] ?? message.role}${isAside ? `, seen by ${message.visibility}` : ""} · ` : null,
      time(message.time),
      message.meta?.modality === "voice" && " · spoken",
      message.format !== "clew" && ` · ${formatName(message.format)}`));
}

class Call {
  constructor(call) {
    this.state = make("span.chip", {}, "no result yet");
    this.output = make("pre", {}, "–");
    this.element = make("details.tool", {},
      make("summary", {}, "Tool ", make("code", {}, call.name), " ", make("span", { dir: "auto" }, short(call.arguments)), " ", this.state),
      make("div.inside.stack.tight", {},
        make("span.label", {}, "Arguments"), make("pre", {}, shown(call.arguments ?? {})),
        make("span.label", {}, "Result"), this.output));
  }

  answer(output) {
    this.isAnswered = true;
    const failed = output !== null && typeof output === "object" && "error" in output;
    this.state.replaceWith(this.state = chip(failed ? "failed" : "done", failed ? "bad" : "good"));
    put(this.output, shown(output ?? "nothing"));
  }
}

function lonely(result) {
  return make("details.tool", {}, make("summary", {}, "Result of ", make("code", {}, result.name || result.id || "a tool")),
    make("pre", {}, shown(result.output ?? "nothing")));
}

function short(value) {
  const said = value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return said.length > SHORT ? `${said.slice(0, SHORT - 1)}…` : said;
}
