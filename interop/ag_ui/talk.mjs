// Talks to a server with the HttpAgent of @ag-ui/client, which parses, enforces, verifies and applies every event.
// Input: url, headers, thread, and actions: {say}, {answer} or {}. Output: every run, and what two clients have.
import { readFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

const { url, headers, thread, actions } = JSON.parse(readFileSync(0, "utf8"));
const complaints = [];
console.warn = (...words) => complaints.push(words.map(String).join(" "));
console.error = console.warn;

async function run(agent, action) {
  const events = [];
  if (action.say !== undefined) {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: action.say });
  }
  const resume = agent.pendingInterrupts.map(({ id }) => ({
    interruptId: id,
    status: "resolved",
    payload: action.answer,
  }));
  const parameters = action.answer === undefined ? {} : { resume };
  await agent.runAgent(parameters, { onEvent: ({ event }) => { events.push(event); } });
  return events;
}

const agent = new HttpAgent({ url, headers, threadId: thread });
const runs = [];
for (const action of actions) {
  runs.push(await run(agent, action));
}
const newcomer = new HttpAgent({ url, headers, threadId: thread });
await run(newcomer, {});
console.log(
  JSON.stringify({
    runs,
    complaints,
    messages: agent.messages,
    state: agent.state,
    interrupts: agent.pendingInterrupts,
    newcomer: { messages: newcomer.messages, state: newcomer.state, interrupts: newcomer.pendingInterrupts },
  }),
);
