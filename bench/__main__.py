"""`python -m bench`: measure the public claims and write docs/performance.md."""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import report
from bench.against import compare
from bench.ground import Ground, prepare_ground
from bench.verdict import Section

DOCS = Path("docs")

FLOOR = ("append", "many", "window", "postgres_append", "postgres_many")
"""Claims that can be measured without us, to know the floor."""

CLAIMS = (
    "append",
    "growth",
    "many",
    "window",
    "postgres_append",
    "postgres_many",
    "size",
    "past",
    "fork",
    "crowd",
    "turns",
    "first_turn",
    "turn_growth",
    "turns_many",
    "turns_waiting",
    "companion",
    "crisis_floor",
    "adk",
    "openai_agents",
    "memory",
    "search",
    "retrieval",
    "vectors",
    "imports",
    "langgraph",
    "server",
    "server_turns",
    "server_workers",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    options = _parser().parse_args(arguments)
    names = [name for name in options.only or CLAIMS if not options.floor or name in FLOOR]
    if options.against is not None:
        compare(names, options.against.resolve(), rounds=options.rounds, quick=options.quick)
        return
    build = Path("build")
    build.mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="bench-", dir=build)).resolve()
    with prepare_ground(
        root,
        quick=options.quick,
        with_us=not options.floor,
        conversations=options.conversations,
        embedder=options.embedder,
    ) as ground:
        sections = asyncio.run(_measure_claims(names, ground))
    if options.json:
        print(report.as_json(sections))
    elif options.update:
        report.update(sections, options.out or DOCS, datetime.now(UTC).date().isoformat())
    elif folder := options.out or _page_of(options):
        report.write(sections, folder)


async def _measure_claims(names: Sequence[str], ground: Ground) -> list[Section]:
    sections = []
    for number, name in enumerate(names, start=1):
        report.tell(f"[{number}/{len(names)}] {name} …")
        start = time.monotonic()
        section = await _section(name, ground)
        sections.append(section)
        report.tell(report.summary(section))
        report.tell(f"  {time.monotonic() - start:.0f} s")
    if not ground.is_one_disk:
        report.tell("PostgreSQL's data was on another disk than the SQLite files.")
    return sections


async def _section(name: str, ground: Ground) -> Section:
    # What earlier claims have left, also modules of peers, is passed over by each collection of garbage.
    gc.collect()
    gc.freeze()
    try:
        section: Section = await importlib.import_module(f"bench.claims.{name}").measure(ground)
    except NotImplementedError as gap:
        return Section(title=name, timings=[], verdicts=[], notes=(f"Not measured: {gap}.",))
    return section


def _page_of(options: argparse.Namespace) -> Path | None:
    """Only a whole run changes the published figures unasked."""
    return None if options.only or options.quick or options.floor else DOCS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=CLAIMS, help="measure this claim; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it runs")
    parser.add_argument("--floor", action="store_true", help="only the raw drivers and the peers")
    parser.add_argument("--json", action="store_true", help="print the figures instead of writing the page")
    parser.add_argument(
        "--against",
        type=Path,
        help="another checkout: measure both in processes that take turns, and compare",
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each of the two is measured")
    parser.add_argument("--update", action="store_true", help="put the figures of --only into the page")
    parser.add_argument("--out", type=Path, help="folder for the page (default: docs, after a whole run)")
    parser.add_argument(
        "--conversations",
        type=Path,
        default=os.environ.get("CLEW_BENCH_CONVERSATIONS"),
        help="a file in the form of LoCoMo, to measure retrieval on (default: CLEW_BENCH_CONVERSATIONS)",
    )
    parser.add_argument("--embedder", help="an embedder, such as openai:MODEL, to measure retrieval with")
    return parser


if __name__ == "__main__":
    main()
