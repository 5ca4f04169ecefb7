"""A plain chat: turns, text as it comes, and a history that is there when the program starts again."""

import asyncio
import tempfile
from pathlib import Path

import clew
from clew.runtime import RunFinished, TextDelta
from clew.testing import ScriptedModel

# A real model goes here; this one plays a script, so that the example needs no key.
model = ScriptedModel(
    "Hello, Ada! What would you like to talk about?",
    "Then let us begin with the tides: the moon pulls, and the sea follows.",
    "Your name is Ada, and we spoke about the tides.",
)


async def say(runtime: clew.Runtime, words: str) -> None:
    """One turn, printed as it comes."""
    print(f"you   {words}\nagent ", end="")
    async for event in runtime.stream_turn("ada-1", words, user="ada"):
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
        elif isinstance(event, RunFinished):
            print(
                f"\n      ({event.usage.output_tokens} words, kept as version {event.mark and event.mark[0]})"
            )


async def main(folder: str) -> None:
    url = f"sqlite:///{Path(folder) / 'chat.db'}"
    async with clew.open(url) as db, clew.Runtime(db, model=model, instructions="Be kind.") as runtime:
        await say(runtime, "Hi, I am Ada.")
        await say(runtime, "Tell me about the sea.")

    print("\n-- the program ends, and starts again --\n")

    async with clew.open(url) as db, clew.Runtime(db, model=model) as runtime:
        await say(runtime, "What do you know about me?")
        messages = [message.text for message in model.requests[-1].messages]
        print(f"\nThe model saw {len(messages)} messages, the first one {messages[0]!r}.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
