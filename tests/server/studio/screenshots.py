"""The pictures of the Studio in the docs, taken anew: python -m tests.server.studio.screenshots"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page

from tests.architecture.source import ROOT
from tests.server.studio.conftest import Visitor, open_browser
from tests.server.studio.studio_server import furnish, move_house, running
from tests.server.studio.workbench import equip

IMAGES = ROOT / "docs/images"
USER = "ada"
PICTURES: list[tuple[str, str, int, int, str]] = [
    ("threads", "/studio/threads", 1120, 640, "light"),
    ("thread", f"/studio/threads/trip-{USER}?at=7", 1280, 760, "light"),
    ("approval", f"/studio/threads/invoice-{USER}", 1120, 640, "dark"),
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
            visitor = Visitor(windows, studio, USER)
            for name, path, width, height, theme in PICTURES:
                page = await visitor.open(path, width=width, height=height, theme=theme)
                async with studio.client(USER) as client:
                    for number in range(6 if name == "system" else 0):
                        await client.run_turn(f"busy-{number % 2}", "How is the weather?")
                        await asyncio.sleep(2)
                if name == "memory":
                    await page.get_by_role("switch", name="Also what held once").click()
                if name == "workbench":
                    await page.get_by_role("button", name="Read tides.md").click()
                await picture(page, folder / f"studio-{name}.png")
            await visitor.close()


async def picture(page: Page, file: Path) -> None:
    """Wait until nothing moves any more, and take it."""
    await page.wait_for_timeout(800)
    await page.screenshot(path=file)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES))
