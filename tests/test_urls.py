"""Opening: what is configured reaches the store, and what was opened is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import clew
import clew.sync
from clew.core.errors import StoreClosed, TooLarge

if TYPE_CHECKING:
    from pathlib import Path

SMALL = clew.Limits(body=100)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/small.db"


@pytest.mark.promise("S-05")
async def test_limits_reach_the_store_that_is_opened(url: str) -> None:
    async with clew.open(url, limits=SMALL) as db:
        thread = await db.create("t")

        with pytest.raises(TooLarge):
            await thread.append(items=[clew.user("x" * 100)])


@pytest.mark.promise("S-05")
def test_limits_reach_the_store_that_is_opened_to_block(url: str) -> None:
    with clew.sync.open(url, limits=SMALL) as db:
        thread = db.create("t")

        with pytest.raises(TooLarge):
            thread.append(items=[clew.user("x" * 100)])


@pytest.mark.promise("S-08")
async def test_what_was_opened_is_closed(url: str) -> None:
    async with clew.open(url) as db:
        await db.create("t")
    other = await clew.open(url)
    await other.close()

    for each in (db, other):
        with pytest.raises(StoreClosed):
            await each.create("u")
