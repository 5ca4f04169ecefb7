// A chat page for any agent that Clew serves, with the AI SDK's useChat.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, generateId, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const api = query.get("api") ?? "http://127.0.0.1:8100/api/v1";
const thread = query.get("thread") ?? "chat-1";
const headers = { "X-Clew-User": query.get("user") ?? "alice" };
const chat = `${api}/ai-sdk/chat`;
const transport = new DefaultChatTransport({ api: chat, headers });

const ENDINGS = {
  error: "The answer failed.",
  cancelled: "The answer was stopped.",
  superseded: "The answer was cut short.",
};

async function readMessages() {
  const reply = await fetch(`${chat}/${encodeURIComponent(thread)}/messages`, { headers });
  if (!reply.ok) throw new Error(await reply.text());
  return (await reply.json()).messages;
}

// Ask until the server answers again: after a crash it takes a moment.
async function waitForMessages() {
  for (;;) {
    try {
      return await readMessages();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

function Chat({ initialMessages }) {
  const [text, setText] = useState("");
  const [isLost, setLost] = useState(false);
  const unsent = useRef(null); // the last message that was sent, until the server is known to have it
  const { messages, setMessages, sendMessage, resumeStream, addToolApprovalResponse, status, error } = useChat({
    id: thread,
    messages: initialMessages,
    resume: true,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    // A stream that was cut off has no finish reason, whatever cut it off.
    onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
      setLost(isDisconnect || (!isAbort && !isError && finishReason == null)),
  });

  // The server has the history: read it again, and go on with the answer that is being made.
  useEffect(() => {
    if (!isLost) return;
    (async () => {
      const stored = await waitForMessages();
      setLost(false);
      setMessages(stored);
      const message = unsent.current;
      if (message != null && !stored.some((each) => each.id === message.id)) await sendMessage(message);
      else await resumeStream();
    })();
  }, [isLost]);

  const end = useRef(null);
  useEffect(() => {
    end.current.scrollIntoView();
  }, [messages, isLost, error]);
  const isBusy = status === "submitted" || status === "streaming";

  // The answer is made on the server, also while nobody listens: leaving the stream would not stop it.
  function stop() {
    fetch(`${api}/runs/${encodeURIComponent(messages.at(-1).id)}/cancel`, { method: "POST", headers });
  }

  function submit(event) {
    event.preventDefault();
    // The id makes it safe to send the message again: it is answered once.
    unsent.current = { id: generateId(), role: "user", parts: [{ type: "text", text }] };
    sendMessage(unsent.current);
    setText("");
  }

  return (
    <main data-status={isLost ? "lost" : status}>
      <ol>
        {messages.map((message) => (
          <li key={message.id} className={message.role} dir="auto">
            {message.parts.map((part, index) => (
              <Part key={index} part={part} respond={addToolApprovalResponse} />
            ))}
            {message.metadata?.termination in ENDINGS && <p>{ENDINGS[message.metadata.termination]}</p>}
          </li>
        ))}
      </ol>
      {isLost && <p role="status">The connection was lost. The answer goes on when it is back.</p>}
      {error && !isLost && <p role="alert">{error.message}</p>}
      <form onSubmit={submit}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {isBusy && messages.at(-1)?.role === "assistant" && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
        <button disabled={!text || isLost || isBusy}>Send</button>
      </form>
      <div ref={end} />
    </main>
  );
}

function Part({ part, respond }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (!part.type.startsWith("tool-")) return null;
  return (
    <p className="tool">
      <code>
        {part.type.slice(5)}({JSON.stringify(part.input)})
      </code>{" "}
      {part.state === "output-available" && <code>→ {JSON.stringify(part.output)}</code>}
      {part.state === "output-error" && <span>failed: {part.errorText}</span>}
      {part.state === "output-denied" && <span>was declined</span>}
      {part.state === "approval-requested" && (
        <>
          <span>{part.approval.requestReason ?? "May it be run?"}</span>
          <button onClick={() => respond({ id: part.approval.id, approved: true })}>Approve</button>
          <button onClick={() => respond({ id: part.approval.id, approved: false })}>Decline</button>
        </>
      )}
    </p>
  );
}

const initialMessages = await waitForMessages();
createRoot(document.getElementById("chat")).render(<Chat initialMessages={initialMessages} />);
