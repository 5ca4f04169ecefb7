"""Node and the packages of ``interop/package-lock.json``, as ``make interop`` installs them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.suites import ROOT

FOLDER = ROOT / "interop"
PACKAGES = FOLDER / "node_modules"
SECONDS = 60.0
"""Seconds that a script may take; it starts slowly on a busy machine."""


def node() -> str:
    """The path of Node in the environment that runs these tests."""
    return str(Path(sys.prefix) / "bin" / "node")


async def run_script(name: str, data: Any, *, seconds: float = SECONDS) -> Any:
    """Run a script of ``interop/`` with a value as JSON on its standard input; the JSON that it prints."""
    child = await asyncio.create_subprocess_exec(
        node(),
        str(FOLDER / name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            output, errors = await child.communicate(json.dumps(data).encode())
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, errors.decode()
    return json.loads(output)


def bundle(source: Path, output: Path) -> None:
    """Bundle a script and the packages that it imports into one file for a browser."""
    command = [node(), str(PACKAGES / "esbuild/bin/esbuild"), str(source), "--bundle", "--format=esm"]
    command += ["--jsx=automatic", '--define:process.env.NODE_ENV="production"', f"--outfile={output}"]
    environment = {**os.environ, "NODE_PATH": str(PACKAGES)}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
