// Validate messages as the AI SDK does before it takes them from a store. In: [UIMessage]. Out: null, or the error.
import { readFileSync } from "node:fs";
import { safeValidateUIMessages } from "ai";

const result = await safeValidateUIMessages({ messages: JSON.parse(readFileSync(0, "utf8")) });
console.log(JSON.stringify(result.success ? null : String(result.error)));
