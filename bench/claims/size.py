"""SQLite: bytes on disk for each byte of a turn."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from bench import ours
from bench.ground import Ground
from bench.turns import json_bytes, turn
from bench.verdict import Bound, Section, Verdict

BOUND = Bound(
    what="SQLite bytes per turn, search index apart, against the JSON bytes of the turn", sign="≤", target=1.5
)
SEARCH = "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name GLOB 'text*'"


async def measure(ground: Ground) -> Section:
    """What 2,000 turns add to a file that holds 200, write-ahead log included."""
    few, lots = 200, ground.count(2_200, 700)
    before = _bytes_on_disk(await ours.fill_file(ground.folder(), few))
    after = _bytes_on_disk(await ours.fill_file(ground.folder(), lots))
    text = sum(json_bytes(turn(number)) for number in range(few, lots))
    per_turn = (after - before) / (lots - few)
    return Section(
        title="SQLite: bytes per turn",
        timings=[],
        verdicts=[Verdict(bound=BOUND, value=(after - before) / text)],
        notes=(f"{per_turn:,.0f} bytes on disk for a turn of {text / (lots - few):,.0f} bytes of JSON.",),
    )


def _bytes_on_disk(path: Path) -> int:
    with closing(apsw.Connection(str(path))) as connection:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        search = connection.execute(SEARCH).get
        files = [path, path.with_name(path.name + "-wal")]
        return sum(file.stat().st_size for file in files if file.exists()) - int(str(search))
