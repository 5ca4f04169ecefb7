// Validate every chunk of some streams with the AI SDK's own schema, and rebuild the messages that they make.
// In: [{chunks, message?}], where message is what the page had before. Out: [{invalid, errors, message}].
import { readFileSync } from "node:fs";
import { readUIMessageStream, uiMessageChunkSchema } from "ai";

const schema = uiMessageChunkSchema();

async function rebuild({ chunks, message }) {
  const invalid = [];
  for (const chunk of chunks) {
    const result = await schema.validate(chunk);
    if (!result.success) invalid.push({ chunk, error: String(result.error) });
  }
  const errors = [];
  const stream = ReadableStream.from(chunks);
  let last = message ?? null;
  for await (const next of readUIMessageStream({ message, stream, onError: (error) => errors.push(error.message) })) {
    last = next;
  }
  return { invalid, errors, message: last };
}

const streams = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await Promise.all(streams.map(rebuild))));
