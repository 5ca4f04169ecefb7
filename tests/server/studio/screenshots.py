"""The pictures of the Studio in the docs, taken anew: python -m tests.server.studio.screenshots"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page

from clew.core.clock import now_ms
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import Run, record_of
from tests.architecture.source import ROOT
from tests.server.studio.conftest import Visitor, open_browser
from tests.server.studio.studio_server import Studio, furnish, move_house, running
from tests.server.studio.workbench import equip

IMAGES = ROOT / "docs/images"
USER = "ada"
DAY = 86_400_000
PICTURES: list[tuple[str, str, int, int, str]] = [
    ("threads", "/studio/threads", 1120, 640, "light"),
    ("thread", f"/studio/threads/trip-{USER}?at=7", 1280, 760, "light"),
    ("approval", f"/studio/threads/invoice-{USER}", 1120, 640, "dark"),
    ("inbox", "/studio/approvals", 1120, 640, "light"),
    ("runs", f"/studio/threads/trip-{USER}", 1280, 760, "light"),
    ("usage", "/studio/usage", 1120, 640, "light"),
    ("memory", "/studio/memory", 1120, 1010, "light"),
    ("workbench", f"/studio/workbench/trip-{USER}", 1120, 1010, "light"),
    ("system", "/studio/system", 1120, 760, "dark"),
    ("phone", f"/studio/threads/trip-{USER}", 360, 700, "light"),
]


async def main(folder: Path) -> None:
    """Take every picture."""
    with tempfile.TemporaryDirectory() as place:
        async with running(Path(place) / "studio.db") as studio, open_browser() as windows:
            await furnish(studio, USER)
            await move_house(studio, USER)
            await equip(studio, USER, f"trip-{USER}")
            await fill_month(studio)
            visitor = Visitor(windows, studio, USER)
            for name, path, width, height, theme in PICTURES:
                page = await visitor.open(path, width=width, height=height, theme=theme)
                async with studio.client(USER) as client:
                    for number in range(6 if name == "system" else 0):
                        await client.run_turn(f"busy-{number % 2}", "How is the weather?")
                        await asyncio.sleep(2)
                if name == "runs":
                    await page.get_by_role("tab", name="Runs").click()
                    await page.get_by_text("Steps", exact=True).nth(1).click()
                if name == "memory":
                    await page.get_by_role("switch", name="Also what held once").click()
                if name == "workbench":
                    await page.get_by_role("button", name="Read tides.md").click()
                await picture(page, folder / f"studio-{name}.png")
                await page.close()  # a browser has few connections to one server, and each page holds one
            await visitor.close()


async def fill_month(studio: Studio) -> None:
    """Runs of two agents on the days of a month, as a fair imitation of a busy one."""
    db = studio.db.scope(tenant="default", user=USER)
    for number in range(180):
        day, tokens = number * 7 % 29, 400 + number * 37 % 900
        usage = Usage(calls=2, input_tokens=3 * tokens, output_tokens=tokens, cost=21 * tokens)
        agent = "travel" if number % 3 else "cook"
        started = now_ms() - (day + 1) * DAY
        run = Run(
            id=f"run-month-{number}", thread="month", agent=agent, status="done", started=started, usage=usage
        )
        await db.records.put(record_of(run, USER))


async def picture(page: Page, file: Path) -> None:
    """Wait until nothing moves any more, and take it."""
    await page.wait_for_timeout(800)
    await page.screenshot(path=file)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES))
