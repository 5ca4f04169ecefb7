"""The pictures of the companion in the docs: python -m tests.server.studio.companion_screenshots"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, expect

import clew
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.server.tenants.realtime import OpenAIRealtime
from tests.server.local_server import listening
from tests.server.studio.conftest import Visitor, open_browser
from tests.server.studio.phone_call import PhoneCall, call
from tests.server.studio.screenshots import IMAGES, picture
from tests.server.studio.studio_server import Studio
from tests.server.studio.test_companion import DANGER, begin, say
from tests.support.realtime_server import RealtimeServer, realtime_server

USER = "ada"
MESSAGES = ("My sister is called Ann.", "I worry about my exam, and I cannot sleep.")


async def main(folder: Path) -> None:
    """Take every picture."""
    async with realtime_server() as provider, companion_studio(provider) as studio, open_browser() as windows:
        visitor = Visitor(windows, studio, USER)
        await end_session(await open_chat(visitor, 390, 780, "light"), folder / "studio-companion-phone.png")
        page = await open_chat(visitor, 1120, 760, "light")
        await say(page, "Can we do box breathing?")
        await picture(page, folder / "studio-companion.png")
        page = await open_chat(visitor, 1120, 860, "dark")
        await say(page, DANGER)
        await picture(page, folder / "studio-companion-danger.png")
        phone_call = await hold_call(visitor, provider)
        await picture(phone_call.page, folder / "studio-call.png")
        await visitor.close()


@asynccontextmanager
async def companion_studio(provider: RealtimeServer) -> AsyncIterator[Studio]:
    """A server as it is started without any settings but those of calls."""
    realtime = OpenAIRealtime("gpt-realtime", "sk-secret", url=provider.url)
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/companion.db"
        async with clew.open(url) as db:
            app = create_app(ServerSettings(url=url, sweep_seconds=3600), db=db, realtime=realtime)
            async with listening(app) as address:
                yield Studio(address, url, db, asyncio.Event())


async def open_chat(visitor: Visitor, width: int, height: int, theme: str) -> Page:
    """A chat in which something was said."""
    page = await visitor.open("/studio/threads", width=width, height=height, theme=theme)
    await begin(page)
    for message in MESSAGES:
        await say(page, message)
    return page


async def hold_call(visitor: Visitor, provider: RealtimeServer) -> PhoneCall:
    """A call in which the assistant is speaking."""
    phone_call = await call(visitor, provider, width=1120, height=760)
    await phone_call.exchange(MESSAGES[1], "That sounds exhausting. When is the exam?")
    await phone_call.speak("Next Monday. Can we do box breathing?")
    await phone_call.client_events(2)
    await phone_call.use_tools(("exercise", '{"name": "box breathing"}'))
    await phone_call.client_events(4)
    await phone_call.tell(
        {"type": "response.created", "response": {"id": "resp"}},
        {"type": "output_audio_buffer.started"},
        {
            "type": "response.output_audio_transcript.delta",
            "item_id": "item",
            "delta": "Gladly. Sit so that your feet are on the floor, and breathe out once. When you are",
        },
    )
    return phone_call


async def end_session(page: Page, file: Path) -> None:
    """The end of a session, with what it kept."""
    await page.get_by_role("textbox", name="Message").fill("/end y")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("The session has ended after")).to_be_visible()
    await expect(page.locator("#notes > *")).to_have_count(0)
    await picture(page, file)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES))
