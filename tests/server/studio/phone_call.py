"""A call of the Studio with both ends in one page: real connections, and events as a provider sends them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.server.studio.conftest import Visitor
from tests.server.studio.test_companion import begin
from tests.support.realtime_server import RealtimeServer

PEER = (Path(__file__).parent / "realtime_peer.js").read_text(encoding="utf-8").partition("\n")[2]
SPEECH = "conversation.item.input_audio_transcription"
REPLY = "response.output_audio_transcript"
ENDS = {"completed": {}, "cancelled": {"type": "cancelled", "reason": "turn_detected"}}
CONNECT_SECONDS = 60
"""Time for two ends to find each other, on a machine that is busy with other browsers."""
numbers = itertools.count(1)


class PhoneCall:
    """A chat of a page, and the provider at the other end of its call."""

    def __init__(self, page: Page, thread: str) -> None:
        self.page = page
        self.thread = thread

    # The person.

    async def dial(self) -> None:
        """Call, and wait for the connection."""
        await self.page.get_by_role("button", name="Call", exact=True).click()
        await expect(self.speaker).to_have_text("Listening", timeout=CONNECT_SECONDS * 1000)

    async def hang_up(self) -> None:
        """Hang up."""
        await self.page.get_by_role("button", name="Hang up").click()

    @property
    def speaker(self) -> Locator:
        """What the page says of who speaks."""
        return self.page.locator(".speaker")

    @property
    def messages(self) -> Locator:
        """What was said, as the page shows it."""
        return self.page.locator(".message:not(.live) .said")

    # The provider.

    async def tell(self, *events: dict[str, Any]) -> None:
        """Send events to the page."""
        await self.page.evaluate("events => provider.tell(...events)", list(events))

    async def client_events(self, count: int = 0) -> list[dict[str, Any]]:
        """What the page has sent, once it is so many events, without the names that it gave to them."""
        await self.page.wait_for_function("count => provider.received.length >= count", arg=count)
        events: list[dict[str, Any]] = await self.page.evaluate("provider.received")
        return [{name: value for name, value in event.items() if name != "event_id"} for event in events]

    async def speak(self, text: str) -> str:
        """Let the person say something; the id that it has."""
        item = f"item_{next(numbers)}"
        await self.tell(
            {"type": "input_audio_buffer.speech_started", "item_id": item, "audio_start_ms": 20},
            {"type": "input_audio_buffer.speech_stopped", "item_id": item, "audio_end_ms": 900},
            {"type": "input_audio_buffer.committed", "item_id": item},
            {"type": f"{SPEECH}.delta", "item_id": item, "content_index": 0, "delta": text[:4]},
            {"type": f"{SPEECH}.completed", "item_id": item, "content_index": 0, "transcript": text},
        )
        return item

    async def answer(self, text: str, *, status: str = "completed", error: str = "") -> None:
        """Answer, as the model does once it is asked to; the voice is heard to its end."""
        item, response = f"item_{next(numbers)}", f"resp_{next(numbers)}"
        details = ENDS.get(status, {"type": status, "error": {"type": "server_error", "message": error}})
        await self.tell(
            {"type": "response.created", "response": {"id": response, "status": "in_progress"}},
            {"type": "output_audio_buffer.started", "response_id": response},
            {"type": f"{REPLY}.delta", "response_id": response, "item_id": item, "delta": text[:5]},
            {"type": f"{REPLY}.delta", "response_id": response, "item_id": item, "delta": text[5:]},
            {"type": f"{REPLY}.done", "response_id": response, "item_id": item, "transcript": text},
            response_done(response, [{"id": item, "type": "message"}], status, details),
            {"type": "output_audio_buffer.stopped", "response_id": response},
        )

    async def use_tools(self, *calls: tuple[str, str]) -> None:
        """Let the model call tools, each by its name and arguments, in one answer."""
        response = f"resp_{next(numbers)}"
        output = [
            {
                "type": "function_call",
                "call_id": f"call_{next(numbers)}",
                "name": name,
                "arguments": arguments,
            }
            for name, arguments in calls
        ]
        await self.tell(
            {"type": "response.created", "response": {"id": response, "status": "in_progress"}},
            *({"type": "response.function_call_arguments.done", **each} for each in output),
            response_done(response, output),
        )

    async def exchange(self, text: str, reply: str) -> None:
        """A whole turn: something said, and its answer."""
        count = len(await self.client_events())
        await self.speak(text)
        await self.client_events(count + 1)
        async with self.page.expect_response(lambda response: response.url.endswith("/voice")):
            await self.answer(reply)


def response_done(
    response: str,
    output: list[dict[str, Any]],
    status: str = "completed",
    details: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The event that ends an answer."""
    body = {"id": response, "status": status, "status_details": details or None, "output": output}
    return {"type": "response.done", "response": body}


async def open_chat(visitor: Visitor, provider: RealtimeServer, **options: Any) -> PhoneCall:
    """A new chat in whose page a provider waits for a call."""
    incognito = bool(options.pop("incognito", False))
    page = await visitor.open("/studio/threads", **options)
    await page.evaluate(f"({PEER})()")

    async def answer_call(description: str) -> str:
        answer: str = await page.evaluate("sdp => provider.answer(sdp)", description)
        return answer

    provider.answer_call = answer_call
    return PhoneCall(page, await begin(page, incognito=incognito))


async def call(visitor: Visitor, provider: RealtimeServer, **options: Any) -> PhoneCall:
    """A call that is connected."""
    phone_call = await open_chat(visitor, provider, **options)
    await phone_call.dial()
    return phone_call
