"""MCP's own conformance suite against our server: the newest stable one, and the coming one as a report."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from tests.server.protocols.mcp.conformance_server import serve_fixtures
from tests.support.interop.node import FOLDER, PACKAGES, node
from tests.support.suites import ROOT

pytestmark = [pytest.mark.interop, pytest.mark.promise("B-17")]
STABLE = PACKAGES / "@modelcontextprotocol/conformance/dist/index.js"
COMING = PACKAGES / "conformance-next/dist/index.js"
NOT_APPLICABLE = FOLDER / "mcp/not-applicable.yml"
REPORT = ROOT / "build/mcp-conformance.txt"
SUMMARY = re.compile(r"^[✓✗~⚠?\s]*([a-z0-9-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
SECONDS = 100


async def run_suite(suite: Path, folder: Path, *options: str) -> tuple[int, str]:
    """Run the server scenarios of a suite; its exit code, and what it printed."""
    async with serve_fixtures() as url:
        child = await asyncio.create_subprocess_exec(
            node(),
            str(suite),
            "server",
            "--url",
            f"{url}/mcp",
            *options,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(SECONDS):
                output, _ = await child.communicate()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    assert child.returncode is not None
    return child.returncode, output.decode()


async def test_the_stable_suite_passes_but_for_what_does_not_apply(tmp_path: Path) -> None:
    code, output = await run_suite(
        STABLE, tmp_path, "--suite", "all", "--expected-failures", str(NOT_APPLICABLE)
    )

    assert code == 0, output[-4_000:]


async def test_the_coming_suite_is_reported(tmp_path: Path) -> None:
    _, output = await run_suite(COMING, tmp_path, "--requirements", "2026-07-28")
    summary = output.rpartition("SUMMARY")[2]
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(summary, encoding="utf-8")

    assert SUMMARY.findall(summary), output[-4_000:]
