"""Something on a thread's workbench: documents, core memory, and files that it made."""

from __future__ import annotations

import struct
import zlib

from tests.server.studio.studio_server import Studio

TIDES = """# Tides

Twice a day the water of the river rises by three metres, and the ferries leave from another pier.

## Ferries

The boat to Cacilhas goes every ten minutes until midnight. At low tide it stops further out.

## Bridges

The red bridge is closed to walkers. Take the train across, it has the better view.
"""
LISBON = "The castle is on the hill.\n\nThe tram goes up from Martim Moniz.\n"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>document.title = "stolen"</script></svg>'
LIGHT, DARK = b"\xdf\xf0\xf1", b"\x0b\x5c\x69"


def chart(width: int = 320, height: int = 200) -> bytes:
    """A picture of a rising line."""
    rows = b"".join(
        b"\x00" + b"".join(DARK if y > height - x * height // width else LIGHT for x in range(width))
        for y in range(height)
    )
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


async def equip(studio: Studio, user: str, thread: str) -> None:
    """Put something of everything on the workbench of a thread."""
    async with studio.client(user) as client:
        bench = client.workbench
        await bench.put_block(thread, "human", "Her name is Ada. She walks a lot and likes rivers.")
        await bench.add_document(thread, "lisbon.txt", LISBON.encode())
        await bench.add_document(thread, "tides.md", TIDES.encode())
    artifacts = studio.artifacts(user, thread)
    await artifacts.save("ferries.csv", b"hour,boats\n8,6\n9,6\n", run="run-1")
    await artifacts.save("drawing.svg", SVG)
    await artifacts.save("tide-chart.png", chart(), run="run-1")
