"""Sessions whose interpreters are at a provider: another program takes them up with their variables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from daytona import DaytonaConfig

import clew
from clew.workbench.interpreter.daytona import RemoteInterpreters
from clew.workbench.interpreter.port import StreamOutput
from clew.workbench.repository.settings import RepositorySettings
from clew.workbench.repository.source import RepositorySource
from clew.workbench.session.attachment import read_snapshots
from clew.workbench.session.reset import ResetReason, Transition
from clew.workbench.session.session import Workbench
from clew.workbench.volume.volume import Volume
from tests.workbench.interpreter.daytona_server import KEY, StandIn
from tests.workbench.session.workbenches import transitions


@pytest.fixture
async def provider() -> AsyncIterator[StandIn]:
    standing = StandIn()
    await standing.start()
    yield standing
    await standing.stop()


@pytest.fixture
async def db() -> AsyncIterator[clew.Database]:
    async with clew.open("memory://") as database:
        yield database


@asynccontextmanager
async def bench_at(
    db: clew.Database, provider: StandIn, tmp_path: Path, repositories: RepositorySettings | None = None
) -> AsyncIterator[Workbench]:
    """A workbench of a program of its own; it is left as a program is that ends without a word."""
    config = DaytonaConfig(api_key=KEY, api_url=provider.url, target="here")
    interpreters = RemoteInterpreters(config, grace=1.0)
    volume = Volume(tmp_path / "volume", db.tenant, "alice")
    try:
        yield Workbench(
            db,
            volume,
            interpreters,
            user="alice",
            volume_name="work",
            provider="daytona",
            is_remote=True,
            scratch=tmp_path / "scratch",
            repositories=repositories,
        )
    finally:
        await interpreters.close()


async def run_and_print(bench: Workbench, code: str) -> str:
    outputs = [output async for output in bench.interpreter.run(code)]
    return "".join(output.text for output in outputs if isinstance(output, StreamOutput))


@pytest.mark.promise("F-06", "F-07")
async def test_another_program_takes_up_the_interpreter_with_its_variables(
    db: clew.Database, provider: StandIn, tmp_path: Path
) -> None:
    async with bench_at(db, provider, tmp_path) as first:
        opening = await first.open("s")
        await run_and_print(first, "x = 41")

    async with bench_at(db, provider, tmp_path) as second, second:
        again = await second.open("s")
        output = await run_and_print(second, "print(x + 1)")

    assert [how.value for how, _ in transitions([*opening.changes, *again.changes])] == [
        "reset",
        "created",
        "resumed",
    ]
    assert output == "42\n"
    assert {each.provider for each in await read_snapshots(db)} == {"daytona"}
    assert [remote.state for remote in provider.sandboxes.values()] == ["destroyed"]


async def test_a_session_at_a_provider_has_no_checkout_and_says_so(
    db: clew.Database, provider: StandIn, tmp_path: Path
) -> None:
    settings = RepositorySettings(hosts=("git.example.org",))
    source = RepositorySource(url="https://git.example.org/tea")
    async with bench_at(db, provider, tmp_path, settings) as bench, bench:
        opening = await bench.open("s", repository=source)

    assert opening.repository is not None
    assert opening.repository.reason == "not_at_provider"


@pytest.mark.promise("F-07")
async def test_a_sandbox_that_the_provider_has_let_go_is_replaced(
    db: clew.Database, provider: StandIn, tmp_path: Path
) -> None:
    async with bench_at(db, provider, tmp_path) as first:
        await first.open("s")
        await first.interpreter.close()

    async with bench_at(db, provider, tmp_path) as second, second:
        again = await second.open("s")

    assert transitions(again.changes) == [(Transition.RECREATED, ResetReason.RESUME)]
