// A page for a Clew agent, by AG-UI: it survives a reload, a second tab and a server that was killed.
//
// ?server= is the address of the server, ?thread= the thread, ?user= whose it is on a server in dev mode.
import { HttpAgent } from "@ag-ui/client";

const PAUSE_MS = 500;
const query = new URLSearchParams(location.search);
const server = query.get("server") ?? "http://127.0.0.1:8080";
const thread = query.get("thread") ?? "ag-ui-example";
const user = query.get("user");
const UNSENT = `unsent ${thread}`;

const agent = new HttpAgent({
  url: `${server}/api/v1/ag-ui`,
  threadId: thread,
  headers: user ? { "X-Clew-User": user } : {},
  initialMessages: unsentMessages(),
});
agent.subscribe({ onMessagesChanged: show, onStateChanged: show });

/** Messages that the server has not acknowledged: they are sent again after a reload, and answered once. */
function unsentMessages() {
  return JSON.parse(localStorage.getItem(UNSENT) ?? "[]");
}

function keepUnsent(messages) {
  localStorage.setItem(UNSENT, JSON.stringify(messages));
}

/** Run until a run has ended: after a lost connection the same messages are sent again. */
async function run(resume) {
  for (;;) {
    let ended = false;
    let problem = "";
    agent.pendingInterrupts = []; // without answers a run only shows them again
    setStatus("…");
    try {
      await agent.runAgent({ resume }, {
        onRunFinishedEvent: () => { ended = true; },
        onRunErrorEvent: ({ event }) => {
          ended = event.code !== "interrupted"; // then the run goes on with its message
          problem = event.message;
        },
      });
    } catch (error) {
      ended = error.status >= 400 && error.status < 500 && error.status !== 429;
      problem = error.payload?.detail ?? String(error.message);
    }
    if (ended) {
      const ids = new Set(agent.messages.map((message) => message.id));
      keepUnsent(unsentMessages().filter((message) => !ids.has(message.id)));
      setStatus(problem);
      show();
      return;
    }
    setStatus("Reconnecting …");
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

let work = Promise.resolve();

/** Do one thing after another: an agent runs once at a time. */
function enqueue(task) {
  work = work.then(task);
  return work;
}

function send(text) {
  const message = { id: crypto.randomUUID(), role: "user", content: text };
  keepUnsent([...unsentMessages(), message]);
  return enqueue(() => {
    agent.addMessage(message);
    return run();
  });
}

function answer(approved) {
  const resume = agent.pendingInterrupts.map(({ id }) => ({
    interruptId: id,
    status: "resolved",
    payload: { approved },
  }));
  return enqueue(() => run(resume));
}

// What the page shows.

const element = (id) => document.getElementById(id);

function setStatus(text) {
  element("status").textContent = text;
}

function line(kind, text) {
  const item = document.createElement("li");
  item.className = kind;
  item.dir = "auto";
  item.textContent = text;
  return item;
}

function show() {
  const lines = agent.messages.flatMap((message) => [
    ...(message.content ? [line(message.role, message.content)] : []),
    ...(message.toolCalls ?? []).map(({ function: tool }) => line("call", `${tool.name}(${tool.arguments})`)),
  ]);
  element("messages").replaceChildren(...lines);
  element("state").textContent = JSON.stringify(agent.state, null, 2);
  element("interrupts").replaceChildren(
    ...agent.pendingInterrupts.map(question),
    ...(agent.pendingInterrupts.length ? [button("Approve", true), button("Decline", false)] : []),
  );
}

function question(interrupt) {
  const paragraph = document.createElement("p");
  paragraph.dir = "auto";
  paragraph.textContent = interrupt.message ?? interrupt.reason;
  return paragraph;
}

function button(label, approved) {
  const control = document.createElement("button");
  control.textContent = label;
  control.onclick = () => answer(approved);
  return control;
}

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = element("text").value.trim();
  element("text").value = "";
  if (text) send(text);
});
// Another tab may have said something meanwhile.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) enqueue(() => run());
});
show();
enqueue(() => run());
